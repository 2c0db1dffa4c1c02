"""What sessions tell of their memory."""
import html


class MemoryStats(dict):
    """Bytes by use: live + retained + padding == mapped, and the roles (planned … packed) make up live."""

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th scope='row' style='text-align:left'>{html.escape(name)}</th>"
                       f"<td style='text-align:right'>{count:,}</td></tr>" for name, count in self.items())
        return f"<table><caption>Memory, in bytes</caption>{rows}</table>"
