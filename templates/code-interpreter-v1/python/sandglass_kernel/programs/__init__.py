"""Programs that code starts with an exclamation mark or with %%bash. Their output never waits in the kernel's memory."""
