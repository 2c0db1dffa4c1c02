"""MemoryPlan: where every byte of a session goes and why, as a dict, and as a picture in notebooks."""
import html
import json

from forethought import _core


class MemoryPlan(dict):
    """What `forethought plan --json` prints, as a dict. The last expression of a notebook's cell shows it as a page."""

    def __init__(self, facts: dict, title: str = "memory plan"):
        super().__init__(facts)
        self.title = title

    def html(self) -> str:
        """One self-contained page that shows the plan, as `forethought plan --html` writes it."""
        return _core.plan_page(self.title, json.dumps(self))

    def _repr_html_(self) -> str:
        return (f'<iframe srcdoc="{html.escape(self.html())}" title="{html.escape(self.title)}" sandbox="allow-scripts" '
                'style="width: 100%; height: 860px; border: 0"></iframe>')
