//go:build broken

package explore

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The setups in which the mutants of testdata/calls.txt are looked for, the quickest first.
var mutantSetups = []Setup{
	{Name: "slots", Clients: 1, Users: 1, Rounds: 2, Slots: 1, Do: Try | Timed | Nest | Cancel | Fixed},
	{Name: "two users", Clients: 1, Users: 2, Rounds: 1, Slots: 1, Do: Timed | Cancel},
	{Name: "behind", Clients: 1, Users: 2, Rounds: 1, Ordered: true, Do: Timed | Cancel},
	{Name: "releases with writes", Clients: 1, Users: 2, Rounds: 1, Slots: 1, Do: Carry},
	{Name: "pass and slots", Clients: 1, Users: 1, Rounds: 2, Slots: 1, Do: Pass | Nest | Cancel, Faults: 1, Fault: Break | WrongType | Delete},
	{Name: "two clients", Clients: 2, Users: 1, Rounds: 1, Do: Try | Timed | Nest | Cancel | Fixed},
	{Name: "faults", Clients: 2, Users: 1, Rounds: 1, Do: Cancel, Faults: 1, Fault: Break | Late | LoseMessage | NotRun | Slow},
	{Name: "pass", Clients: 2, Users: 1, Rounds: 1, Slots: 1, Do: Pass},
	{Name: "writes", Clients: 1, Users: 2, Rounds: 1, Slots: 1, Do: Write},
	{Name: "answers", Clients: 2, Users: 2, Rounds: 1, Do: Carry | Ask},
	{Name: "joins", Clients: 2, Users: 2, Rounds: 1, Faults: 1, Fault: JoinFails},
	{Name: "readers", Clients: 2, Users: 1, Rounds: 1, RW: true, Do: Read | Downgrade | Cancel, Look: 9, Lease: 9},
	{Name: "fair", Clients: 2, Users: 1, Rounds: 1, Kind: fair, Do: Cancel},
	{Name: "no pub/sub", Clients: 2, Users: 1, Rounds: 1, Polling: true, Do: Cancel | Try, Look: 9, Lease: 9},
	{Name: "errors", Clients: 2, Users: 1, Rounds: 1, Do: Cancel, Faults: 1, Fault: WrongType | Unreplicated | NotRun},
	{Name: "without end", Clients: 2, Users: 2, Passes: 5},
	{Name: "subscribed late", Clients: 2, Users: 1, Rounds: 1, Look: 9, Lease: 9, Faults: 1, Fault: Cut | Slow},
	{Name: "lazy", Clients: 1, Users: 2, Rounds: 1, Lazy: true, Do: Nest | Cancel | Timed},
	{Name: "close", Clients: 1, Users: 2, Rounds: 1, Do: Close | Cancel},
	{Name: "patience", Clients: 1, Users: 3, Rounds: 1, Kind: fair},
	{Name: "held back", Clients: 2, Users: 2, Rounds: 1, RW: true, Do: Read},
	{Name: "attempts", Clients: 1, Users: 3, Rounds: 1, Do: Try | OnlyTry, Faults: 1, Fault: Break | NotRun},
	{Name: "attempts and waits", Clients: 1, Users: 2, Rounds: 1, Do: Try | Timed, Faults: 1, Fault: Break | NotRun | Slow},
	{Name: "reading attempts", Clients: 1, Users: 3, Rounds: 1, RW: true, Do: Try | OnlyTry | Read | OnlyRead},
	{Name: "attempts of readers and a writer", Clients: 1, Users: 3, Rounds: 1, RW: true, Do: Try | OnlyTry | Read},
	{Name: "attempts behind waits", Clients: 1, Users: 3, Rounds: 1, Do: Try},
}

// Each mutant of a function that sends, lands, waits or leaves is found, but for those that change
// nothing.
func TestMutantsOfCalls(t *testing.T) {
	text, err := os.ReadFile("testdata/calls.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^# (\d+): (.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(all) < 40 {
		t.Fatalf("%d mutants", len(all))
	}
	for i, m := range all {
		if m[1] != fmt.Sprint(i+1) {
			t.Fatalf("mutant %s is the %d. one", m[1], i+1)
		}
		t.Run(m[1], func(t *testing.T) {
			t.Parallel()
			found := ""
			nothing, time := strings.HasPrefix(m[2], "nothing"), strings.HasSuffix(m[2], "time only")
			most := 120_000
			if nothing || time {
				most = 4_000
			}
			for _, s := range mutantSetups {
				s.Broken.Call = i + 1
				if found = explored(s, most); found != "" {
					found = s.Name + ": " + found
					break
				}
			}
			if t.Logf("%s: %s", m[2], found); (found == "") != (nothing || time) {
				t.Errorf("%s: found %q", m[2], found)
			}
		})
	}
}

// explored returns the first violation in a setup, or its panic, "" for neither.
func explored(s Setup, most int) (found string) {
	defer func() {
		if r := recover(); r != nil {
			found = fmt.Sprint("panic: ", r)
		}
	}()
	return All(s, Limit{States: most}).Bad
}
