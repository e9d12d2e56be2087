"""Output of the kernel that waits for its reader instead of filling memory."""
