"""CPU and memory."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from meshperf.report import style
from meshperf.report.plots.axes import new_figure, styled


@styled
def resources(
    resources_df: pd.DataFrame, runs_df: pd.DataFrame, what: str = "cpu", title: str | None = None
) -> Figure:
    """Draw what each component uses, stacked, a bar per arm and rate: mean over runs.

    Parameters
    ----------
    resources_df : DataFrame
        A row per run and container.
    runs_df : DataFrame
        All runs; dots show the total of each.
    what : {"cpu", "memory"}
        CPU time per request in microseconds, or the median working set in MiB.
    title : str, optional
        Title inside the figure.
    """
    column, factor, label = {
        "cpu": ("cpu_s_per_request", 1e6, "CPU per request (µs)"),
        "memory": ("working_set_median_bytes", 2**-20, "working set (MiB)"),
    }[what]
    identity = ["mesh", "configuration", "target_rps", "block", "deployment"]
    roles = [role for role in style.ROLES if role in set(resources_df["role"])]
    per_run = resources_df[resources_df["role"].isin(roles)].pivot_table(
        index=identity, columns="role", values=column, aggfunc="sum"
    )
    per_run = (per_run.reindex(columns=roles).fillna(0) * factor).reset_index()
    cells = [
        (arm, rate)
        for rate in sorted(runs_df["target_rps"].unique())
        for arm in style.arm_order(zip(runs_df["mesh"], runs_df["configuration"], strict=True))
    ]
    figure = new_figure(1.25 + 0.27 * len(cells))
    axes = figure.subplots()
    for place, (arm, rate) in enumerate(cells):
        runs = per_run[
            (per_run["mesh"] == arm[0])
            & (per_run["configuration"] == arm[1])
            & (per_run["target_rps"] == rate)
        ]
        left = 0.0
        for role in roles:
            _, grey, hatch = style.ROLES[role]
            width = float(runs[role].mean()) if len(runs) else 0.0
            axes.barh(
                place,
                width,
                left=left,
                height=0.62,
                color=grey,
                hatch=hatch,
                edgecolor="#333333",
                linewidth=0.5,
            )
            left += width
        axes.plot(
            runs[roles].sum(axis=1), [place] * len(runs), linestyle="none", zorder=4, markersize=3.5,
            **style.marker_style(*arm),
        )  # fmt: skip
    axes.set_yticks(range(len(cells)))
    axes.set_yticklabels([f"{style.arm_label(*arm)} · {int(rate)} RPS" for arm, rate in cells])
    axes.set_ylim(len(cells) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(label)
    axes.set_title(title or label)
    handles = [
        Patch(
            facecolor=style.ROLES[role][1],
            hatch=style.ROLES[role][2],
            edgecolor="#333333",
            label=style.ROLES[role][0],
        )
        for role in roles
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=3, handlelength=2.2, columnspacing=1.2)
    return figure
