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
	"Lock.levels.all": "see Level", "Lock.levels.summary.writes": "follows from the levels", "Lock.levels.summary.asked": "follows from the levels", "Lock.levels.summary.longest": "follows from the levels", "Lock.line.first": "see Call", "Lock.line.end": "a link", "Lock.line.len": "counted from the line", "Lock.line.calls": "counted by the calls",
	"Lock.line.repeats": "follows from the line", "Lock.owner": "told by the tenure", "Lock.tenures.first": "see Tenure", "Lock.tenures.last": "a link", "Lock.tenures.len": "counted from the list",
	"Lock.tenures.byID": "follows from the list",
	"Tenure.ID.Client":  "counted: the lock's", "Tenure.ID.N": "renamed", "Tenure.Tag": "the driver's", "Tenure.lock": "a link", "Tenure.prev": "a link", "Tenure.behind": "a link", "Tenure.call": "told by its owner", "Tenure.touched": "false when the effects are taken",
	"Tenure.flight.seq": "a command says whether it is current",
	"Call.Info":         "the driver's", "Call.Tag": "the driver's", "Call.inLine": "counted: as its place says", "Call.counted": "counted: as its place says", "Call.Way": "for the observer", "Call.Part": "for the observer", "Call.Token": "for the holder", "Call.Tenure": "told by the tenure", "Call.Cause": "for the caller", "Call.Fault": "for the caller", "Call.Found": "for the caller", "Call.flies": "told by its user", "Call.seq": "a command says whether it is current", "Call.prev": "a link", "Call.next": "a link",
	"parting.n": "renamed", "Level.Since": "for the observer", "Level.Token": "for the holder", "Tenure.tokens.current": "for the holder", "Level.Way": "for the observer", "Level.Part": "for the observer", "Level.First": "for the observer", "Level.Info": "the driver's",
}

// full returns a lock in which every condition is on under which a field decides.
func full() *Lock {
	c := &Client{Config: Config{ReadersTime: 2}, partings: partings{{n: 5, until: 20}}}
	l := c.NewLock(Kind{})
	l.hears, l.patient = asking, 20
	l.abroad = abroad{hears: asking, ends: 20, since: 20}
	w := &Call{Owner: 1, Mode: Shared, Until: 20, began: 20, rest: 20, alarm: 20}
	l.line.join(w)
	t := l.newTenure(ID{N: 1}, Shared)
	t.want, t.call, t.polls = Kept, w, true
	t.flight = flight{op: Leave, at: Now{20, 20}, last: true}
	t.trust = trust{until: 20, seen: Now{20, 20}}
	t.tokens = tokens{reserved: 3, left: 2, current: 4}
	t.turn = turn{contested: true, since: 20}
	t.since, t.again, t.late, t.look, t.alarm = 20, 20, 20, 20, 20
	w.Tenure, l.owner = t, t
	l.levels.all = []Level{{Owner: 1, Until: 20}}
	l.levels.ends = 20
	return l
}

// Each field of the structs is copied, and tells states apart unless it decides nothing.
func TestASnapshotKnowsEachField(t *testing.T) {
	state := func(l *Lock) []byte {
		n := &Names{Owners: [8]OwnerID{1, 2, 3, 4}, No: 4}
		return l.client.Append(l.Append(nil, Now{10, 10}, n), Now{10, 10}, n)
	}
	for _, of := range []func(*Lock) any{
		func(l *Lock) any { return l },
		func(l *Lock) any { return l.tenures.first },
		func(l *Lock) any { return l.line.first },
		func(l *Lock) any { return &l.levels.all[0] },
		func(l *Lock) any { return &l.client.partings[0] },
	} {
		v := reflect.ValueOf(of(full())).Elem()
		for _, path := range leaves(v.Type(), v.Type().Name(), nil) {
			l := full()
			was := state(l)
			f := reflect.ValueOf(of(l)).Elem().FieldByIndex(path.index)
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
				if !nothing {
					t.Errorf("%s: unknown kind %s", path.name, f.Kind())
				}
				continue
			}
			if told := !bytes.Equal(state(l), was); told == nothing {
				t.Errorf("%s tells states apart: %v", path.name, told)
			}
			var y Image
			y.Copy(l.client, l)
			g := reflect.ValueOf(of(&y.Locks[0])).Elem().FieldByIndex(path.index)
			if fmt.Sprint(f) != fmt.Sprint(g) && !strings.HasPrefix(reason, "follows") {
				t.Errorf("%s is %v in the copy of %v", path.name, g, f)
			}
		}
	}
}

// A copy of a copy has the memory that is to be used again, too, and an ended tenure stays ended in it.
func TestACopyOfACopyKnowsTheEndedTenures(t *testing.T) {
	c := &Client{}
	l := c.NewLock(Kind{})
	cmd := l.newTenure(ID{N: 1}, Alone).send(Leave, Now{})
	l.forget(cmd.tenure, Now{})
	var first, second Image
	first.Copy(c, l)
	first.Command(&cmd)
	second.Copy(&first.Client, &first.Locks[0])
	second.Command(&cmd)
	life := second.Locks[0].newTenure(ID{N: 2}, Alone)
	if life != cmd.tenure || life.flight.seq != cmd.tenureSeq || second.gone.lock != nil {
		t.Errorf("the memory is used again: %v, with the number %d after %d", life == cmd.tenure, life.flight.seq, cmd.tenureSeq)
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
