"""SGLang's own server, in AWS's images."""
