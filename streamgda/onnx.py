"""Models as ONNX graphs: `register` tells skl2onnx how to convert them. The extra ``onnx`` installs it."""

from streamgda.extensions.onnx.converters import register

__all__ = ["register"]
