"""Finds uses of the standard library that the running Python lacks: names of modules, and keywords of functions and methods.
Debian 12 has 3.11.2; a developer's newer Python has more, even within 3.11 (TarFile.extractall's `filter`).

    `/usr/bin/python3 library_check.py FILE ...`    prints each, FILE:LINE: what; exit status 1 if there is one.

A method is looked up by its name in the classes of the modules that the file imports, since the type of `tar` in
tar.extractall(filter="data") is unknown. It is an error if some classes have the method and none accepts the keyword. Function names
defined in our own code are left out."""
import ast
import builtins
import importlib
import inspect
import pathlib
import sys

LIBRARY = frozenset(sys.stdlib_module_names)


def module_of(name):
    """The imported module, or None if it is not of the library or not of this platform."""
    if name.partition(".")[0] not in LIBRARY:
        return None
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def keywords_of(function):
    """The keywords that it accepts; None: unknown, or any."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return None
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name for p in parameters}


def methods_called(name, modules):
    classes = [kind for module in modules for kind in vars(module).values() if inspect.isclass(kind)]
    return [getattr(kind, name) for kind in classes if callable(inspect.getattr_static(kind, name, None))]


class Reader(ast.NodeVisitor):
    def __init__(self, own_functions):
        self.own, self.modules, self.found = own_functions, {}, []

    def say(self, node, text):
        self.found.append((node.lineno, text))

    def visit_Import(self, node):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            if top in LIBRARY and module_of(alias.name) is None:
                self.say(node, f"no module {alias.name}")
            if (module := module_of(alias.name if alias.asname else top)) is not None:
                self.modules[alias.asname or top] = module

    def visit_ImportFrom(self, node):
        if node.level or (node.module or "").partition(".")[0] not in LIBRARY:
            return
        if (module := module_of(node.module)) is None:
            self.say(node, f"no module {node.module}")
            return
        for alias in node.names:
            if alias.name != "*" and not hasattr(module, alias.name) and module_of(f"{node.module}.{alias.name}") is None:
                self.say(node, f"{node.module} has no {alias.name}")
        self.modules.setdefault(f"from {node.module}", module)

    def named(self, node):
        """The object behind `module.name.name`, or None."""
        if isinstance(node, ast.Name):
            return self.modules.get(node.id)
        if isinstance(node, ast.Attribute):
            within = self.named(node.value)
            return getattr(within, node.attr, None) if inspect.ismodule(within) or inspect.isclass(within) else None
        return None

    def visit_Attribute(self, node):
        within = self.named(node.value)
        if inspect.ismodule(within) and not hasattr(within, node.attr) and module_of(f"{within.__name__}.{node.attr}") is None:
            self.say(node, f"{within.__name__} has no {node.attr}")
        self.generic_visit(node)

    def visit_Call(self, node):
        given = {k.arg for k in node.keywords if k.arg}
        function = self.named(node.func)
        if function is not None:
            takes = keywords_of(function)
            for name in sorted(given - takes if takes is not None else ()):
                self.say(node, f"{ast.unparse(node.func)}() takes no {name}")
        elif isinstance(node.func, ast.Attribute) and node.func.attr not in self.own and not hasattr(builtins.str, node.func.attr):
            known = [keywords_of(method) for method in methods_called(node.func.attr, self.modules.values())]
            for name in sorted(given if known else ()):
                if all(takes is not None and name not in takes for takes in known):
                    self.say(node, f"{node.func.attr}() takes no {name}")
        self.generic_visit(node)


def own_functions(trees):
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def missing(files):
    """-> lines FILE:LINE: what"""
    trees, lines = {}, []
    for file in files:
        try:
            trees[file] = ast.parse(pathlib.Path(file).read_text(encoding="utf-8"), str(file))
        except SyntaxError as error:
            lines.append(f"{file}:{error.lineno}: {error.msg}")
    own = own_functions(trees.values())
    for file, tree in trees.items():
        reader = Reader(own)
        imports = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
        for node in imports:  # anywhere in the file: a function may have its own
            reader.visit(node)
        reader.found.clear()
        reader.visit(tree)
        lines += [f"{file}:{line}: {text}" for line, text in sorted(reader.found)]
    return lines


if __name__ == "__main__":
    told = missing(sys.argv[1:])
    print("\n".join(told))
    sys.exit(1 if told else 0)
