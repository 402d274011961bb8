"""Fault injection: rules, and the servers and proxies that apply them."""
