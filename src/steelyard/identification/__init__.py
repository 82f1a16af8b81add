"""From a problem and an estimator to an identification, and the fits before and around it."""
