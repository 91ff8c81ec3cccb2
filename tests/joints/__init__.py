"""What lies between features: each file asks one question at every door and tool that must answer it alike."""
