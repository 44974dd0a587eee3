"""Makes the types and methods of this package from an OpenAPI document."""
