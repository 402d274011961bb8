"""obstore (the Rust object_store, extra `[obstore]`) as a carrier: in a process of its own, for it may end with one."""
