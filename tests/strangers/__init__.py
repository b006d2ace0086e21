"""Operations that strangers declare: outside of the package, by ``funcgrad.extend`` alone."""
