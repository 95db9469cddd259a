"""What a worker's pieces say, for tests of models of named tensors."""


def told(pieces):
    """By request: the outputs by name, or what was refused."""
    return [
        (p.failure.name, p.failure.message) if p.failure else {t.name: t.numpy().tolist() for t in p.outputs} for _, p in sorted(pieces, key=lambda one: one[0])
    ]
