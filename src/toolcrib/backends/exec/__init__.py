"""Commands while they run: started by a supervisor, limited, listened to, and ended with their whole tree."""
