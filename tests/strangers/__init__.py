"""Operations that are declared outside of the package, by ``funcgrad.extend`` alone."""
