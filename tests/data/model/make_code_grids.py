"""Prints the sets of runtime/model/tensors/code_grids.cpp from the Python package gguf. Each combination of a grid's levels has a bit, set if the grid has it.
A hexadecimal digit has four, the lowest first. A grid is sorted by its combinations, so the bits are all there is to it.
Run it by hand after `pip install gguf numpy` in a venv.
"""
import gguf.quants
import numpy as np

NAMES = {"IQ2_XXS": "iq2_xxs", "IQ2_XS": "iq2_xs", "IQ2_S": "iq2_s", "IQ3_XXS": "iq3_xxs", "IQ3_S": "iq3_s", "IQ1_S": "iq1"}


def main():
    for kind, name in NAMES.items():
        quant = getattr(gguf.quants, kind)
        quant.init_grid()
        points = np.asarray(quant.grid).reshape(quant.grid_shape)
        levels = sorted(set(points.ravel().tolist()))
        combinations = (np.searchsorted(levels, points) * len(levels) ** np.arange(points.shape[1])).sum(axis=1)
        assert (np.diff(combinations) > 0).all()
        digits = [0] * -(-len(levels) ** points.shape[1] // 4)
        for combination in map(int, combinations):
            digits[combination // 4] |= 1 << combination % 4
        text = "".join(f"{digit:x}" for digit in digits)
        lines = [f'    "{text[at : at + 92]}"' for at in range(0, len(text), 92)]
        print(f"constexpr std::string_view {name}_set =\n" + "\n".join(lines) + ";")


main()
