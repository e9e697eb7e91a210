"""Charts, pages and panels of results, without Ray and MLflow."""
