package core

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unsafe"
)

// decidesNothing are the fields that tell no two states apart, with the reason.
var decidesNothing = map[string]string{
	"Lock.Kind.Strict": "a setup's", "Lock.Kind.Fenced": "a setup's", "Lock.Kind.Permits": "a setup's", "Lock.Tag": "the driver's", "Lock.client": "a link",
	"Lock.levels.all": "see Level", "Lock.levels.summary.writes": "follows from the levels", "Lock.levels.summary.asked": "follows from the levels", "Lock.levels.summary.longest": "follows from the levels", "Lock.line.Queue.head": "see Call", "Lock.line.Queue.len": "counted from the line", "Lock.line.calls": "counted by the calls",
	"Lock.line.repeats": "follows from the line", "Lock.line.overdue": "counted from the line", "Lock.held": "told by the tenure", "Lock.tenures.first": "see Tenure", "Lock.tenures.last": "a link",
	"Lock.tenures.byID": "follows from the list",
	"Tenure.ID.Client":  "counted: the lock's", "Tenure.ID.N": "renamed", "Tenure.Tag": "the driver's", "Tenure.lock": "a link", "Tenure.prev": "a link", "Tenure.behind": "a link", "Tenure.Agent": "told by its owner", "Tenure.touched": "false when the effects are taken",
	"Tenure.flight.seq": "a command says whether it is current",
	"Call.Info":         "the driver's", "Call.Tag": "the driver's", "Call.waiting.victims": "a slice: see call", "Call.waiting.counted": "counted: as its place says", "Call.Grant.Way": "for the observer", "Call.Part": "for the observer", "Call.Grant.Token": "for the holder", "Call.Tenure": "told by the tenure", "Call.Result.Cause": "for the caller", "Call.Result.Fault": "for the caller", "Call.Result.Found": "for the caller", "Call.Grant.Others": "for the caller", "Call.inFlight": "told by its user", "Call.waiting.position.Value": "a link", "Call.waiting.position.queue": "a link", "Call.waiting.position.prev": "a link", "Call.waiting.position.next": "a link",
	"parting.n": "renamed", "Level.Since": "for the observer", "Level.Token": "for the holder", "Tenure.tokens.current": "for the holder", "Level.Way": "for the observer", "Level.Part": "for the observer", "Level.First": "for the observer", "Level.Info": "the driver's",
}

// full returns a lock in which every condition is on under which a field decides.
func full() *Lock {
	c := &Client{Config: Config{ReadersTime: 2, Brief: 4}}
	c.partings = []parting{{n: 5, until: 20}}
	l := c.NewLock(Kind{})
	l.grants, l.patient, l.stays, l.yielding, l.yields = subscribing, 20, 20, confirmed, 20
	l.foreign = foreignState{channel: subscribing, ends: 20, since: 20}
	w := &Call{Owner: 1, Mode: Shared, Until: 20, Began: 20, alarm: 20, waiting: waiting{rest: 20}}
	l.line.add(w)
	n := &Tenure{
		ID: ID{N: 1}, lock: l, mode: Shared, want: Held, Agent: w,
		flight:     flight{op: Leave, at: Now{Time: 20, Safe: 20}, last: true},
		trust:      trust{until: 20, seen: Now{Time: 20, Safe: 20}},
		tokens:     tokens{reserved: 3, left: 2, current: 4},
		contention: contention{othersWait: true, since: 20},
		since:      20, again: 20, late: 20, look: 20, alarm: 20,
	}
	l.tenures.add(n)
	w.Tenure, l.held = n, n
	l.levels.all = []Level{{Owner: 1, Until: 20}}
	l.levels.summary.ends = 20
	return l
}

// Each field of the structs is copied, and tells states apart unless it decides nothing.
func TestASnapshotKnowsEachField(t *testing.T) {
	state := func(l *Lock) []byte {
		n, now := &Names{Owners: [8]OwnerID{1, 2, 3, 4}, OwnerCount: 4}, Now{Time: 10, Safe: 10}
		return n.AppendClient(n.AppendLock(nil, l, now), l.Client(), now)
	}
	for _, c := range []struct {
		lock func() *Lock
		of   func(*Lock) any
	}{
		{full, func(l *Lock) any { return l }},
		{full, func(l *Lock) any { return l.tenures.first }},
		{full, func(l *Lock) any { return l.line.Head().Value }},
		{full, func(l *Lock) any { return &l.Levels()[0] }},
		{full, func(l *Lock) any { return &l.Client().partings[0] }},
	} {
		v := reflect.ValueOf(c.of(c.lock())).Elem()
		for _, path := range leaves(v.Type(), v.Type().Name(), nil) {
			l := c.lock()
			was := state(l)
			f := reflect.ValueOf(c.of(l)).Elem().FieldByIndex(path.index)
			f = reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
			reason, nothing := decidesNothing[path.name]
			if strings.HasPrefix(reason, "counted") {
				continue
			}
			switch f.Kind() {
			case reflect.Bool:
				f.SetBool(!f.Bool())
			case reflect.Int, reflect.Int8, reflect.Int32, reflect.Int64:
				f.SetInt(f.Int() + 1)
			case reflect.Uint8, reflect.Uint32, reflect.Uint64:
				f.SetUint(f.Uint() + 1)
			case reflect.Interface:
				f.Set(reflect.ValueOf(7))
			default:
				if f.Type() == reflect.TypeFor[*Note]() {
					f.Set(reflect.ValueOf(&Note{}))
					break
				}
				if !nothing {
					t.Errorf("%s: unknown kind %s", path.name, f.Kind())
				}
				continue
			}
			if told := !bytes.Equal(state(l), was); told == nothing {
				t.Errorf("%s tells states apart: %v", path.name, told)
			}
			var y Image
			y.Copy(l.Client(), l)
			g := reflect.ValueOf(c.of(&y.Locks[0])).Elem().FieldByIndex(path.index)
			g = reflect.NewAt(g.Type(), unsafe.Pointer(g.UnsafeAddr())).Elem()
			if fmt.Sprint(f) != fmt.Sprint(g) && !strings.HasPrefix(reason, "follows") {
				t.Errorf("%s is %v in the copy of %v", path.name, g, f)
			}
		}
	}
}

// A copy of a copy has the memory that is to be used again, too, and an ended tenure stays ended in
// it.
func TestACopyOfACopyKnowsTheEndedTenures(t *testing.T) {
	c := &Client{Config: Config{Lease: 9}}
	l := c.NewLock(Kind{})
	acquires := func(l *Lock) Command {
		w := &Call{Owner: 1, Until: Never}
		l.BeginLock(w, Now{})
		return l.Command(w, l.Next(w, true, Now{}).Op, Now{})
	}
	cmd := acquires(l)
	l.Answer(&cmd, nil, Reply{Fault: Fatal}, Now{})
	for len(c.TakeEffects(Now{})) > 0 {
	}
	var first, second Image
	first.Copy(c, l)
	first.CopyOfCommand(&cmd)
	second.Copy(&first.Client, &first.Locks[0])
	second.CopyOfCommand(&cmd)
	was := cmd
	life := acquires(&second.Locks[0])
	if life.Tenure != was.Tenure || life.tenureSeq == was.tenureSeq || second.gone.lock != nil {
		t.Errorf("the memory is used again: %v, with the number %d after %d", life.Tenure == was.Tenure, life.tenureSeq, was.tenureSeq)
	}
}

type leaf struct {
	name  string
	index []int
}

// leaves returns the fields of a struct, and of the structs in it.
func leaves(of reflect.Type, name string, index []int) (all []leaf) {
	for i := range of.NumField() {
		f := of.Field(i)
		at := append(append([]int(nil), index...), i)
		if f.Type.Kind() == reflect.Struct {
			all = append(all, leaves(f.Type, name+"."+f.Name, at)...)
		} else {
			all = append(all, leaf{name + "." + f.Name, at})
		}
	}
	return all
}
