"""Long-lived state: one class a file, whose @rpc methods are the methods of the gateway."""
