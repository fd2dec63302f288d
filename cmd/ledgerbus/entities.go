package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/program"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

func entitiesCommand() *cli.Command {
	return &cli.Command{
		Name:  "entities",
		Usage: "export all entities to a file, or create and update entities from a file",
		Description: "The file is the emulator's Config.json with additional properties, or the same in YAML. Works with\n" +
			"Ledgerbus and with any other Service Bus namespace.\n\n" +
			"   ledgerbus entities export --file entities.yaml\n" +
			"   ledgerbus entities apply entities.yaml --dry-run",
		Subcommands: []*cli.Command{
			{
				Name: "export", Usage: "write all queues, topics, subscriptions and rules to a file",
				Description: "Omits the keys of access rules unless --with-keys is given. Before such a file can be applied, keys must\n" +
					"be added.\n\n" +
					"   ledgerbus entities export > Config.json\n" +
					"   ledgerbus entities export --file entities.yaml --with-keys",
				Flags: connectionFlags(
					&cli.StringFlag{Name: "file", Aliases: []string{"f"}, DefaultText: "standard output", Usage: "file to write; only you can read it"},
					&cli.StringFlag{Name: "output", Aliases: []string{"o"}, DefaultText: "by the name of --file, else json", Usage: "json (the emulator's Config.json) or yaml"},
					&cli.BoolFlag{Name: "with-keys", Usage: "include the keys of access rules"},
				),
				Action: exportEntities,
			},
			{
				Name: "apply", Usage: "create and update entities to match a file", ArgsUsage: "FILE",
				Description: "First prints the planned changes. Entities that are not in the file remain unless --prune is given. If the\n" +
					"file lists rules for a subscription, the subscription gets exactly these rules. Before the command\n" +
					"deletes anything, it asks for the host name; scripts pass it with --confirm. Applying a file twice\n" +
					"changes nothing.\n\n" +
					"   ledgerbus entities apply entities.yaml --dry-run --exit-code\n" +
					"   ledgerbus entities apply Config.json --prune --confirm localhost",
				Flags: connectionFlags(
					output.Flag(output.Text, output.JSON),
					&cli.BoolFlag{Name: "dry-run", Usage: "print the planned changes without making them"},
					&cli.BoolFlag{Name: "exit-code", Usage: "with --dry-run: exit with code 1 if there are changes to make"},
					&cli.BoolFlag{Name: "prune", Usage: "delete entities that are not in the file, with their messages"},
					&cli.StringFlag{Name: "confirm", Usage: "host name of the namespace, instead of typing it at the prompt"},
					reasonFlag(),
				),
				Action: applyEntities,
			},
		},
	}
}

func exportEntities(c *cli.Context) error {
	if err := arguments(c, 0, 0, ""); err != nil {
		return err
	}
	file, format := c.String("file"), settings.EntityFormat(c.String("output"))
	if ext := strings.ToLower(filepath.Ext(file)); format == "" {
		if format = settings.EntityJSON; ext == ".yaml" || ext == ".yml" {
			format = settings.EntityYAML
		}
	}
	if format != settings.EntityJSON && format != settings.EntityYAML {
		return usageError{fmt.Errorf("--output: %q is not json or yaml", format)}
	}
	return administer(c, func(a *administration) error {
		there, err := a.snapshot(func(string) bool { return true })
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := settings.WriteEntities(&b, there.put, format, c.Bool("with-keys")); err != nil {
			return err
		}
		if file == "" {
			_, err = c.App.Writer.Write(b.Bytes())
			return err
		}
		return writePrivate(file, b.Bytes())
	})
}

// A snapshot contains all entities. They are read one after another, so concurrent changes may be
// missing.
type snapshot struct {
	put    []engine.PutEntity
	byPath map[string]*admin.Entity // by lower-case path
}

// snapshot reads all entities, and the rules of the subscriptions whose lower-case path satisfies
// rulesOf.
func (a *administration) snapshot(rulesOf func(string) bool) (*snapshot, error) {
	s := &snapshot{byPath: map[string]*admin.Entity{}}
	for _, kind := range []event.EntityKind{event.Queue, event.Topic, event.Subscription} {
		found, err := a.listOf(kind, "")
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			s.byPath[strings.ToLower(e.Path)] = e
			s.put = append(s.put, engine.PutEntity{Kind: kind, Path: e.Path, Properties: e.Properties})
		}
	}
	bar := newEntityProgress(len(s.put), "reading rules")
	defer bar.finish()
	for i := range s.put {
		e := &s.put[i]
		bar.add(1)
		if e.Kind != event.Subscription || !rulesOf(strings.ToLower(e.Path)) {
			continue
		}
		rules, err := a.Rules(a.ctx, e.Path)
		if err != nil {
			return nil, err
		}
		e.Rules, e.OnlyRules = rules, true
	}
	return s, nil
}

func applyEntities(c *cli.Context) error {
	if err := arguments(c, 1, 1, "one FILE"); err != nil {
		return err
	}
	if c.Bool("exit-code") && !c.Bool("dry-run") {
		return usageError{errors.New("--exit-code needs --dry-run")}
	}
	want, used, err := settings.ReadEntities(c.Args().First())
	if err != nil {
		return err
	}
	for _, line := range used {
		fmt.Fprintln(c.App.ErrWriter, program.Printable(line))
	}
	return administer(c, func(a *administration) error {
		p, err := a.plan(want, c.Bool("prune"))
		if err != nil {
			return err
		}
		if err := p.print(output.Of(c)); err != nil {
			return err
		}
		return p.apply(c, a)
	})
}

// apply makes the planned changes, subject to the flags and to a confirmation of losses.
func (p *plan) apply(c *cli.Context, a *administration) error {
	switch {
	case len(p.changes) == 0:
		return nil
	case c.Bool("dry-run") && c.Bool("exit-code"):
		return errors.New("there are changes to make")
	case c.Bool("dry-run"):
		return nil
	}
	if err := p.checkChanges(); err != nil {
		return err
	}
	if losing := p.losses(a); losing != "" {
		if err := confirm(c, a.Hostname(), losing); err != nil {
			return err
		}
	}
	if err := p.carryOut(a); err != nil {
		return err
	}
	_, err := fmt.Fprintln(c.App.ErrWriter, "done")
	return err
}

// writePrivate replaces a whole file with one that only its owner can read.
func writePrivate(name string, src []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".ledgerbus-*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // has been renamed by then unless an error occurred
	_, err = f.Write(src)
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// A plan is a list of changes.
type plan struct {
	there   *snapshot
	changes []settings.Change
}

// plan compares the wanted entities with the existing ones.
func (a *administration) plan(want []engine.PutEntity, prune bool) (*plan, error) {
	fixed := map[string]bool{} // subscriptions with listed rules
	for i := range want {
		fixed[strings.ToLower(want[i].Path)] = want[i].OnlyRules
	}
	there, err := a.snapshot(func(path string) bool { return fixed[path] })
	if err != nil {
		return nil, err
	}
	if err := a.adapt(want, there); err != nil {
		return nil, err
	}
	p := &plan{there: there, changes: settings.Diff(there.put, want)}
	if !prune {
		p.changes = slices.DeleteFunc(p.changes, func(c settings.Change) bool { return c.Action == settings.Delete })
	}
	return p, nil
}

const (
	premiumMessageKilobytes = 1024 // the minimum in the premium tier
	// the size of a partitioned entity is this multiple of the requested size
	partitionedFactor = 16
)

// adapt changes two kinds of values that a namespace stores differently (management-api.md 3.2).
// Otherwise a file would always differ from the namespace.
func (a *administration) adapt(want []engine.PutEntity, there *snapshot) error {
	ns, err := a.Namespace(a.ctx)
	if refused := (*admin.Error)(nil); errors.As(err, &refused) && refused.Status == 0 {
		return err
	}
	// an emulator may have no description
	premium := err == nil && strings.EqualFold(ns.Tier, "Premium")
	for i := range want {
		p := &want[i].Properties
		is := there.byPath[strings.ToLower(want[i].Path)]
		if premium && want[i].Kind != event.Subscription && p.MaxMessageSizeKilobytes < premiumMessageKilobytes {
			if p.MaxMessageSizeKilobytes = premiumMessageKilobytes; is != nil {
				p.MaxMessageSizeKilobytes = is.Properties.MaxMessageSizeKilobytes
			}
		}
		if is != nil && p.EnablePartitioning && is.Properties.MaxSizeMegabytes == partitionedFactor*p.MaxSizeMegabytes {
			p.MaxSizeMegabytes = is.Properties.MaxSizeMegabytes
		}
	}
	return nil
}

func (p *plan) print(out *output.Printer) error {
	count := map[settings.Action]int{}
	for _, c := range p.changes {
		count[c.Action]++
		var err error
		if out.Format == output.JSON {
			err = out.Value(changeJSON(c))
		} else {
			_, err = fmt.Fprintln(out, program.Printable(c.String()))
		}
		if err != nil {
			return err
		}
	}
	if out.Format == output.JSON {
		return nil
	}
	text := "no changes"
	if len(p.changes) > 0 {
		text = fmt.Sprintf("%d to create, %d to update, %d to delete", count[settings.Create], count[settings.Update], count[settings.Delete])
	}
	_, err := fmt.Fprintln(out, text)
	return err
}

func changeJSON(c settings.Change) any {
	type field struct {
		Name  string `json:"name"`
		Old   string `json:"old,omitempty"`
		New   string `json:"new,omitempty"`
		Fixed bool   `json:"fixed,omitempty"`
	}
	fields := []field{}
	for _, f := range c.Fields {
		if c.Action == settings.Create {
			f.Old = ""
		}
		fields = append(fields, field(f))
	}
	return struct {
		Action settings.Action  `json:"action"`
		Kind   event.EntityKind `json:"kind"`
		Path   string           `json:"path"`
		Fields []field          `json:"fields"`
	}{c.Action, c.Entity.Kind, c.Entity.Path, fields}
}
