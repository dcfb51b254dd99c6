"""The choice among candidates of kernel functions by measuring them on the device."""
