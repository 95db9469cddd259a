"""TorchServe's handlers of its own (`--handler image_classifier`), of our own, one module each; they need torch and torchvision.

A module has the one class that an archive means which names it as its handler, and what handlers import as ts.torch_handler.<module>.
"""

NAMES = ("vision_handler", "image_classifier", "image_segmenter", "object_detector")
NEEDS = ("torch", "torchvision", "PIL")
