"""Tools of group:messaging: what the assistant says and does in chats."""
