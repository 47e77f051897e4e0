package wire

import (
	"slices"
	"strconv"
)

// conditions makes the scripts of conditions, each before an acquire or a step.
var conditions composed

// The parts of such a script around its source: see scripts/condition.lua.
var (
	conditionBegins = releaseBegins + oneLine(read("condition"))
	conditionEnds   = "end)() " + oneLine(read("condition_end"))
)

// Unless returns the call of a condition and of the command c behind it, an acquire or a step, which is executed unless the
// source returns a string.
func Unless(source string, keys, args []string, c *Call) Call {
	commandKeys, commandArgs := c.split()
	return Call{
		Script: conditions.script(parts{source, c.Script}, conditionBegins, conditionEnds+"return (function(KEYS, ARGV)\n"+c.Script.text+"\nend)(stepKeys, stepArgs)"),
		Keys:   slices.Concat(keys, commandKeys),
		Args:   slices.Concat(args, commandArgs, []string{strconv.Itoa(len(commandKeys)), strconv.Itoa(len(commandArgs))}),
	}
}
