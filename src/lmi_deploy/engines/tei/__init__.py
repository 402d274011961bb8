"""Text Embeddings Inference, in Hugging Face's images on SageMaker."""
