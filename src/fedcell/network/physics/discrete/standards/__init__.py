"""What standards and data sheets say of radios with steps, by radio."""
