"""Our versions of TorchServe's built-in handlers (`--handler image_classifier`), one module each; they need torch and torchvision.

A module has the one class that an archive means by that handler name, and that handlers import as ts.torch_handler.<module>.
"""

NAMES = ("vision_handler", "image_classifier", "image_segmenter", "object_detector")
NEEDS = ("torch", "torchvision", "PIL")
