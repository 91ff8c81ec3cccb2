"""Commands while they run: started by a keeper, limited, listened to, and ended with their whole tree."""
