package image

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/waitqueue"
)

// The fields of core's structs, in their order. Types that are private there are bytes here.

type client struct {
	core.Config
	ID      uint32
	Tenure  func() uint64
	Effects []core.Effect
	Changed func(*core.Tenure, core.Want, core.Place)

	closed   bool
	last     uint64
	spare    *core.Tenure
	partings []parting
	taken    []core.Effect
}

type parting struct {
	n     uint64
	until core.Time
}

type lock struct {
	Kind core.Kind
	Tag  any

	client  *core.Client
	levels  levels
	line    line
	owner   *core.Tenure
	tenures tenures

	hears   byte
	reserve uint32
	patient core.Time
	stays   core.Time
	abroad  abroad
}

// What core calls asking and deaf.
const deaf, asking = 0, 1

type abroad struct {
	hears   byte
	told    bool
	news    byte
	listens bool
	ends    core.Time
	since   core.Time
}

type levels struct {
	all []core.Level
	summary
}

type summary struct {
	writes  int32
	asked   core.SafeTime
	longest core.SafeTime
	ends    core.SafeTime
}

type level struct {
	Owner  core.OwnerID
	Mode   core.Mode
	Part   bool
	Guest  bool
	First  bool
	wrote  bool
	Capped bool
	Way    core.Way
	Until  core.SafeTime
	Since  core.Time
	Token  uint64
	Handle any
	Info   any
}

type line struct {
	waitqueue.Queue[*core.Call]
	calls   int32
	overdue int32
	repeats map[core.OwnerID]int
}

type call struct {
	Owner    core.OwnerID
	Mode     core.Mode
	More     int32
	Lease    core.Span
	Waits    bool
	Until    core.Time
	Part     bool
	Guest    bool
	Repeats  bool
	Capped   bool
	Handle   any
	Info     any
	Answers  bool
	Most     int32
	Carries  bool
	Named    core.ID
	Inherits uint64
	Tag      any

	Purpose core.Purpose
	Outcome core.Outcome
	Began   core.Time
	Tenure  *core.Tenure
	core.Grant
	core.Result

	asleep bool
	flies  bool
	alarm  core.Time
	waiting
}

type waiting struct {
	attempt  byte
	counted  bool
	overdue  bool
	admitted bool
	fails    int
	rest     core.Time
	position waitqueue.Waiter[*core.Call]
}

type tenures struct {
	first, last *core.Tenure
	len         int
	byID        map[core.ID]*core.Tenure
}

type tenure struct {
	ID           core.ID
	Tag          any
	lock         *core.Lock
	prev, behind *core.Tenure

	want    core.Want
	entry   core.Op
	place   core.Place
	mode    core.Mode
	takes   bool
	news    byte
	old     bool
	step    bool
	wrote   bool
	marked  bool
	claim   bool
	touched bool
	polls   uint8
	fails   uint8
	more    int32

	flight flight
	trust  trust
	Agent  *core.Call
	named  core.OwnerID
	shown  shape
	tokens tokens
	share  share
	within core.Span

	again core.Time
	late  core.Time
	since core.Time
	look  core.Time
	alarm core.Time
}

type flight struct {
	op    core.Op
	asks  byte
	exact bool
	last  bool
	seq   uint32
	at    core.Now
	lease core.Span
}

type trust struct {
	until core.SafeTime
	lease core.Span
	seen  core.Now
	least core.Span
	most  core.Span
}

type shape struct {
	owner  core.OwnerID
	writes int32
	reads  bool
	until  core.SafeTime
}

type tokens struct {
	reserved uint32
	left     uint32
	current  uint64
}

type share struct {
	since     core.Time
	passes    int32
	contested bool
	handed    bool
}

type command struct {
	Op core.Op
	core.Ticket
	Joins   core.Ticket
	Passed  core.ID
	Carries bool
	Lease   core.Span
	Exact   bool
	Writes  int
	Reads   bool
	Asks    bool

	Bounded bool
	Most    int

	Tokens  uint64
	Permits int
	Heard   bool
	Polling bool
	Follows bool

	Tenure              *core.Tenure
	joins               *core.Tenure
	tenureSeq, joinsSeq uint32
}

func ofClient(c *core.Client) *client    { return (*client)(unsafe.Pointer(c)) }
func ofLock(l *core.Lock) *lock          { return (*lock)(unsafe.Pointer(l)) }
func ofLevel(v *core.Level) *level       { return (*level)(unsafe.Pointer(v)) }
func ofCall(w *core.Call) *call          { return (*call)(unsafe.Pointer(w)) }
func ofTenure(t *core.Tenure) *tenure    { return (*tenure)(unsafe.Pointer(t)) }
func ofCommand(m *core.Command) *command { return (*command)(unsafe.Pointer(m)) }

func init() {
	mirrors[client, core.Client]()
	mirrors[lock, core.Lock]()
	mirrors[level, core.Level]()
	mirrors[call, core.Call]()
	mirrors[tenure, core.Tenure]()
	mirrors[command, core.Command]()
}

func mirrors[M, T any]() {
	of := reflect.TypeFor[T]()
	if differs := difference(reflect.TypeFor[M](), of, of.Name()); differs != "" {
		panic("explore/image: mirror.go is to be changed with core." + differs)
	}
}

// difference returns the first field whose layout is another one, "" for none.
func difference(m, t reflect.Type, name string) string {
	switch {
	case m == t:
		return ""
	case m.Kind() != t.Kind(), m.Size() != t.Size() && m.Kind() != reflect.Struct:
		return fmt.Sprintf("%s, a %s", name, t)
	case m.Kind() == reflect.Slice:
		return difference(m.Elem(), t.Elem(), name+"[]")
	case m.Kind() != reflect.Struct:
		return ""
	}
	for i := range max(m.NumField(), t.NumField()) {
		switch {
		case i == t.NumField():
			return fmt.Sprintf("%s, which has no field %s", name, m.Field(i).Name)
		case i == m.NumField(), m.Field(i).Name != t.Field(i).Name, m.Field(i).Offset != t.Field(i).Offset:
			return name + "." + t.Field(i).Name
		}
		if d := difference(m.Field(i).Type, t.Field(i).Type, name+"."+t.Field(i).Name); d != "" {
			return d
		}
	}
	return ""
}
