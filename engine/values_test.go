package engine

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// allCommands has one command of each type.
var allCommands = []Command{
	&Send{}, &Attach{}, &Flow{}, &StepBack{}, &Detach{}, &Settle{}, &Renew{}, &Peek{}, &ReceiveDeferred{}, &CancelScheduled{}, &BatchDelete{}, &RenewSession{},
	&SetSessionState{}, &GetSessionState{}, &ListSessions{}, &PutEntity{}, &DeleteEntity{}, &PutRule{}, &DeleteRule{}, &ListRules{}, &Receive{},
	&Tick{}, &acceptSession{}, &releaseSession{}, &releaseAll{}, &sweep{}, &dropSlice{}, &touch{}, &Note{}, &Stage{}, &Commit{}, &Rollback{},
	&Forward{}, &Import{}, &FinishTransfers{}, &FailTransfer{}, &ForgetSource{}, &PutHistoryPolicy{},
	Internal{},
}

// references are the types in commands that are not plain values, each with the reason why it is
// there.
var references = map[string]string{
	"*engine.Entity": "the version that the caller knows: never changed, but that loops note the use of the entity there. No rule looks at it.",
	"*event.Origin": "texts that are made once for a link and never changed. The address tells links with equal texts apart, in a cache of this " +
		"run; what stands in the log is a number and the texts.",
	"*filter.Message": "what filters see of one message. It is the command's own. What only the broker knows of the message is filled in by the " +
		"decision, all of it each time.",
	"*engine.Receiver": "known by its address. Attach, Flow, StepBack and Detach are for the loop; no rule gets them, and nothing about them is in a log.",
	"event.Event":      "the event of a fact, values alone. It goes into the log as it is, with its origin filled in.",
	"engine.Command":   "an operation that is part of a transaction, itself a value.",
	"engine.Buffer":    "the memory of the message's bytes, which the loop gives back. No rule looks at it.",
}

// A decision of a partition follows from the command, the time and its state: commands hold no
// functions, no channels and nothing that the runtime changes by itself, except for the listed
// fields, each with a reason.
func TestCommandsAreValues(t *testing.T) {
	t.Parallel()
	met := map[string]bool{}
	for _, cmd := range allCommands {
		of := reflect.TypeOf(cmd)
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		for path, what := range held(of, of.Name()) {
			if met[what] = true; references[what] == "" {
				t.Errorf("%s is %s: make it a value, or say in references why it is none", path, what)
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(references)) {
		if !met[what] {
			t.Errorf("no command holds %s any more: take it off the list", what)
		}
	}
}

// held returns the parts of a type that are not plain values, by their place in the type.
func held(of reflect.Type, path string) map[string]string {
	switch of.Kind() {
	case reflect.Func, reflect.Chan, reflect.Map, reflect.Interface, reflect.Pointer, reflect.UnsafePointer, reflect.Uintptr:
		return map[string]string{path: of.String()}
	case reflect.Slice, reflect.Array:
		return held(of.Elem(), path+"[]")
	case reflect.Struct:
		all := map[string]string{}
		for i := range of.NumField() {
			maps.Copy(all, held(of.Field(i).Type, path+"."+of.Field(i).Name))
		}
		return all
	}
	return nil
}

// Every command of the package is in allCommands.
func TestAllCommands(t *testing.T) {
	t.Parallel()
	var listed, found []string
	for _, cmd := range allCommands {
		of := reflect.TypeOf(cmd)
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		listed = append(listed, of.Name())
	}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(gotoken.NewFileSet(), f.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && fn.Name.Name == "command" {
				found = append(found, receiverName(fn.Recv.List[0].Type))
			}
		}
	}
	slices.Sort(listed)
	if slices.Sort(found); !slices.Equal(listed, found) {
		t.Errorf("the package has the commands\n%v\nlisted are\n%v", found, listed)
	}
}

func receiverName(of ast.Expr) string {
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	return of.(*ast.Ident).Name
}
