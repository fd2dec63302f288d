package filter

import "github.com/ledgerbus/ledgerbus/log/event"

type op uint8

const (
	opConst   op = iota // value
	opParam             // name
	opUser              // name
	opSystem            // name
	opNamed             // property(kids[0])
	opNewID             //
	opPlus              // kids[0]
	opMinus             // kids[0]
	opAdd               // kids[0], kids[1]; so all down to opGe
	opSub               //
	opMul               //
	opDiv               //
	opMod               //
	opEq                //
	opNe                //
	opLt                //
	opLe                //
	opGt                //
	opGe                //
	opIn                // kids[0] in the others; not
	opLike              // kids[0] like kids[1], perhaps escape kids[2]; not
	opIsNull            // kids[0], a property; not
	opExists            // kids[0], a property
	opNot               // kids[0]
	opAnd               // kids[0], kids[1]
	opOr                // kids[0], kids[1]
	opUnknown           // of a compiled node: a system property whose name does not exist
	opColumn            // name; only in a condition on rows, as the next one
	opMember            // path, of a JSON body
)

var symbolOf = [...]string{
	opPlus: "+", opMinus: "-", opAdd: "+", opSub: "-", opMul: "*", opDiv: "/", opMod: "%",
	opEq: "=", opNe: "<>", opLt: "<", opLe: "<=", opGt: ">", opGe: ">=", opNot: "NOT ", opAnd: "AND", opOr: "OR",
}

// expr is a node of the tree that a text is parsed into. Parentheses leave no node.
type expr struct {
	op    op
	pos   int // of the first character of the name, constant or operator that the node comes from
	not   bool
	name  string
	value event.Value
	path  []string
	kids  []*expr
}

// statement is one SET or REMOVE of an action.
type statement struct {
	target *expr // opUser, opSystem
	value  *expr // nil: REMOVE
}
