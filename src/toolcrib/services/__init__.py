"""Long-lived state, by feature: classes whose @rpc methods are the methods of the gateway, and what mounts them."""
