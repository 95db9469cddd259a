"""Completion of the command line in bash and zsh, made of the help of the `cluster` binary by cli_pages.py."""
import dataclasses
import re

NAMES = ("cluster", "baton")
SECTION = re.compile(r"^ *(Positionals|Options|Subcommands):$")
ENTRY = re.compile(r"^(?:  |    )(?P<what>\S+(?: \S+)*?)(?:  +(?P<text>\S.*))?$")


@dataclasses.dataclass
class Option:
    names: list  # ["-f", "--follow"]
    value: str   # what it takes: "TEXT"; "" for a flag
    choices: list
    text: str


@dataclasses.dataclass
class Command:
    words: tuple  # ("model", "inspect")
    options: list = dataclasses.field(default_factory=list)
    positionals: list = dataclasses.field(default_factory=list)  # names
    below: list = dataclasses.field(default_factory=list)        # (name, text) of subcommands


def option_of(what, text):
    """`what`: as in "-f,--follow" or "--log-level TEXT:{debug,off} Needs: --x"."""
    names, _, rest = what.partition(" ")
    kind = re.sub(r"\b(Needs|Excludes): .*", "", rest).strip()
    choices = re.search(r"\{(.*?)\}", kind)
    return Option(names.split(","), re.split(r"[: ]", kind)[0], choices[1].split(",") if choices else [], text)


def parsed(words, help_text):
    """The command of a help text."""
    command, section, entry = Command(words), "", None
    for line in help_text.splitlines():
        if begins := SECTION.match(line):
            section, entry = begins[1], None
            continue
        found = ENTRY.match(line) if section and not line.startswith("     ") else None
        if found and section == "Options" and found["what"].startswith("-"):
            entry = option_of(found["what"], found["text"] or "")
            command.options.append(entry)
        elif found and section == "Positionals":
            command.positionals.append(found["what"].split(" ")[0])
        elif found and section == "Subcommands" and line.startswith("  ") and not line.startswith("   "):
            command.below.append((found["what"], found["text"] or ""))
        elif entry and not entry.text and line.startswith("      "):
            entry.text = line.strip()  # too long for the line of its name
    return command


def all_parsed(found):
    """`found`: as cli_pages.commands gives it."""
    return [parsed(words, text) for words, text in found]


def bash(found):
    commands = all_parsed(found)
    words = lambda texts: " ".join(texts)
    places = "|".join(f'" {" ".join(c.words)}"' for c in commands if c.words)
    lines = [f"# Completion of {' and '.join(NAMES)} in bash. Made by scripts/cli_pages.py of the program's help.", "_cluster() {",
             '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" command="" flags="" words="" i',
             "  for ((i = 1; i < COMP_CWORD; i++)); do", '    case "$command ${COMP_WORDS[i]}" in', f'      {places}) command="$command ${{COMP_WORDS[i]}}" ;;',
             "    esac", "  done", '  COMPREPLY=()', '  case "$command $before" in']
    for command in commands:
        at = "".join(f" {word}" for word in command.words)
        place = lambda option: "|".join(f'"{at} {name}"' for name in option.names)
        for option in filter(lambda one: one.choices, command.options):
            lines.append(f'    {place(option)}) COMPREPLY=($(compgen -W "{words(option.choices)}" -- "$word")); return ;;')
        if free := [place(option) for option in command.options if option.value and not option.choices]:
            lines.append(f"    {'|'.join(free)}) return ;;")
    lines += ["  esac", '  case "$command" in']
    for command in commands:
        at = "".join(f" {word}" for word in command.words)
        below = [name for name, _ in command.below] or (command_names(commands) if "COMMAND" in command.positionals else [])
        lines.append(f'    "{at}") flags="{words(name for one in command.options for name in one.names)}"; words="{words(below)}" ;;')
    return "\n".join([*lines, "  esac", '  case "$word" in', '    -*) COMPREPLY=($(compgen -W "$flags" -- "$word")) ;;',
                      '    *) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;', "  esac", "}",
                      f"complete -o default -F _cluster {' '.join(NAMES)}  # default: names of files, where nothing else is known", ""])


def command_names(commands):
    return [command.words[0] for command in commands if len(command.words) == 1]


def quoted(text, also=""):
    """Text between single quotes of zsh, in which `also` are special."""
    text = re.sub(f"([{re.escape(also)}\\\\])", r"\\\1", text) if also else text
    return text.replace("'", "'\\''")


def zsh_option(option):
    names = f"'({' '.join(option.names)})'{{{','.join(option.names)}}}" if len(option.names) > 1 else option.names[0]
    value = f":{option.value}:({' '.join(option.choices)})" if option.choices else f":{option.value}:_files" if option.value else ""
    return f"{names}'[{quoted(option.text, '[]:')}]{value}'"


def zsh_function(command, commands):
    name = "_".join(["_cluster", *(word.replace("-", "_") for word in command.words)])
    arguments = [zsh_option(option) for option in command.options]
    lines = [f"{name}() {{"]
    if command.below:
        lines.append("  local context state state_descr line; typeset -A opt_args")
        arguments += ["'1:command:->command'", "'*::argument:->argument'"]
    elif "COMMAND" in command.positionals:
        arguments.append(f"'*:command:({' '.join(command_names(commands))})'")
    elif command.positionals:
        arguments.append(f"'*:{command.positionals[0]}:_files'")
    lines.append("  _arguments " + ("-C " if command.below else "") + " \\\n    ".join(arguments))
    if command.below:
        lines += ["  case $state in", "    command) local -a names=("]
        lines += [f"      '{quoted(below)}:{quoted(text, ':')}'" for below, text in command.below]
        lines += ["    ); _describe command names ;;", "    argument) case $words[1] in"]
        lines += [f"      {below}) {name}_{below.replace('-', '_')} ;;" for below, _ in command.below]
        lines += ["      esac ;;", "  esac"]
    return "\n".join([*lines, "}"])


def zsh(found):
    commands = all_parsed(found)
    return "\n".join([f"#compdef {' '.join(NAMES)}", "# Made by scripts/cli_pages.py of the program's help.",
                      *(zsh_function(command, commands) for command in reversed(commands)), '_cluster "$@"', ""])
