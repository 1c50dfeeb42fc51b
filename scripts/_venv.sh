# Sourced by scripts/run and scripts/test: `ensure_venv [extra]` makes .venv and installs the project into
# it, once; it does so again only when pyproject.toml or constraints.txt changed.
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
python="$root/.venv/bin/python"

ensure_venv() {
    local extra="${1:-}" stamp wanted
    stamp="$root/.venv/installed${extra:+-$extra}"
    wanted="$(cksum <"$root/pyproject.toml") $(cksum <"$root/constraints.txt")"
    if [ -x "$python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
        return
    fi
    local base="${PYTHON:-python3}"
    if ! "$base" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
        echo "puffertoolkit needs Python 3.10 to 3.13, and '$base' is not one." \
            "Name another with PYTHON=/path/to/python3 $0" >&2
        exit 2
    fi
    echo "Setting up $root/.venv (once, about a minute) ..." >&2
    [ -x "$python" ] || "$base" -m venv "$root/.venv"
    "$python" -m pip install --quiet --disable-pip-version-check \
        -c "$root/constraints.txt" -e "$root${extra:+[$extra]}"
    echo "$wanted" >"$stamp"
}
