"""An asyncio HTTP/1.1 client for inference: connections that stay open, streams with the time of each piece, AWS's
signature and event stream.
"""
