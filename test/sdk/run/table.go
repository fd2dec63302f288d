package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/ledgerbus/ledgerbus/test/sdk/lab"
)

// printTable shows what a round came to, scenario by SDK, with totals below.
func printTable(w io.Writer, list lab.List, reports []Report) {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault // names of SDKs are small letters
	header := table.Row{"group", "scenario"}
	for _, r := range reports {
		header = append(header, r.name())
	}
	t.AppendHeader(header)
	group := ""
	for _, s := range list.Scenarios {
		if !slices.ContainsFunc(reports, func(r Report) bool { return list.Shows(r.SDK, s) }) {
			continue
		}
		row := table.Row{"", s.ID}
		if s.Group != group {
			if group != "" {
				t.AppendSeparator()
			}
			row[0], group = s.Group, s.Group
		}
		for _, r := range reports {
			if list.Shows(r.SDK, s) {
				row = append(row, cell(r, s))
			} else {
				row = append(row, "")
			}
		}
		t.AppendRow(row)
	}
	t.AppendSeparator()
	for _, total := range []struct{ name, mark string }{{"shown", shown}, {"failed", failed}, {"cannot be expressed", cannot}, {"not run", unknown}} {
		row := table.Row{"all", total.name}
		for _, r := range reports {
			row = append(row, count(r, list, total.mark))
		}
		t.AppendRow(row)
	}
	took := table.Row{"all", "time"}
	for _, r := range reports {
		took = append(took, r.Took.Round(100*time.Millisecond))
	}
	t.AppendRow(took)
	t.Render()
}

// cell is a verdict with the seconds it took.
func cell(r Report, s lab.Scenario) string {
	v := r.Verdict(s)
	if result, has := r.Results[s.ID]; has && v.Mark != cannot {
		return fmt.Sprintf("%s %.1f s", v.Mark, result.Seconds)
	}
	return v.Mark
}

func count(r Report, list lab.List, mark string) (n int) {
	for _, s := range list.For(r.SDK).Scenarios {
		if r.Verdict(s).Mark == mark {
			n++
		}
	}
	return n
}
