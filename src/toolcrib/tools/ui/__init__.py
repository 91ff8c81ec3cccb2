"""group:ui: what people see in a browser, and pages for them."""
