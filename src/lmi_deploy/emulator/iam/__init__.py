"""IAM: roles, trust and policies, stored by moto."""
