"""Where a registered model can be deployed. Databricks is the one target so far."""
