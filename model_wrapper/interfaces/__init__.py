"""One file for each MLflow interface; MLflow runs the file that a model was logged with."""
