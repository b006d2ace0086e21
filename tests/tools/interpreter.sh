#!/usr/bin/env bash
# interpreter.sh VERSION COMMAND: run a command on a copy of this working tree under another CPython, as on a user's machine.
#     tests/tools/interpreter.sh 3.14 'python -m pip install -q -e ".[dev]" && python -m pytest'
# VERSION is 3.13 (of Debian's suite trixie), 3.14 or 3.15 (of sid); COMMAND finds a fresh virtual environment active. The
# systems come from the mirror that apt uses here and are made once, under ${INTERPRETERS:-/var/tmp/interpreters}. It needs root.
set -euo pipefail

# Mounts are of these processes alone, and go with them.
[ -n "${UNSHARED:-}" ] || UNSHARED=1 exec unshare --mount "${BASH_SOURCE[0]}" "$@"

version=$1
command=$2
case $version in
3.13) suite=trixie ;;
3.14 | 3.15) suite=sid ;;
*)
    echo "interpreter.sh: no suite of Debian is known to have Python $version" >&2
    exit 2
    ;;
esac
home=${INTERPRETERS:-/var/tmp/interpreters}
root=$home/$suite
tree=$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel)
unchecked=(-o Acquire::Check-Valid-Until=false)  # a mirror that lags is as good

logged() { # logged FILE COMMAND...: print the end of what a command says only where it fails
    "${@:2}" >"$1" 2>&1 || { tail -3 "$1" >&2 && return 1; }
}

inside() { # what the checked command must not inherit stays outside
    chroot "$root" env -u PIP_CONSTRAINT -u PIP_FIND_LINKS -u PYTHONDONTWRITEBYTECODE -u PYTHONPATH -u VIRTUAL_ENV \
        HOME=/root TMPDIR=/tmp "$@"
}

mkdir -p "$root"
exec {lock}>"$home/$suite.lock"
flock "$lock"
if [ ! -e "$root/.made" ]; then
    command -v debootstrap >/dev/null || logged "$home/apt.log" apt-get "${unchecked[@]}" update -q
    command -v debootstrap >/dev/null || logged "$home/apt.log" apt-get install -y -q debootstrap
    mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -E '/debian/?$' | head -1)
    packages=python3,python3-venv,ca-certificates,git
    logged "$home/$suite.log" debootstrap --variant=minbase --include="$packages" "$suite" "$root" "$mirror"
    touch "$root/.made"
fi
for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
    [ ! -e "$file" ] || cp -L "$file" "$root$file"
done
if ! inside sh -c "command -v python$version" >/dev/null; then
    logged "$home/$version.log" inside apt-get "${unchecked[@]}" update -q
    logged "$home/$version.log" inside apt-get install -y -q "python$version" "python$version-venv"
fi
exec {lock}>&-
for point in proc dev; do mount --bind "/$point" "$root/$point"; done

work=$(mktemp -d "$root/root/run.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree"
(cd "$tree" && git ls-files -z --cached --others --exclude-standard | xargs -0 -r ls -d 2>/dev/null | tar -c -T -) |
    tar -x -C "$work/tree"
inside "python$version" -m venv "/root/${work##*/}/venv"
inside bash -c "cd '/root/${work##*/}/tree' && . ../venv/bin/activate && $command"
