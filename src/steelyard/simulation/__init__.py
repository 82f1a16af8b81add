"""The closed loop: plant, controllers and what lies between them."""
