"""Where code written for onnxruntime looks for its exceptions."""
