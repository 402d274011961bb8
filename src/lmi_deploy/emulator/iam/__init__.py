"""Who may do what: roles, trust and policies, as kept by moto."""
