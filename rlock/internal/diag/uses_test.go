package diag

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-rlock/rlock/rlock/internal/terms"
)

func TestUsesAreOneForEachOwnerAndEachWait(t *testing.T) {
	soon := time.Now().Add(time.Minute)
	site := &terms.Site{Function: "here"}
	whole := &terms.Whole{Name: "a,b", Site: site}
	f := &fake{views: []terms.View{
		plain("b", 1, 5, 2, 3),
		{Name: "nested", Kind: terms.KindPlain, ValidUntil: far, Levels: []terms.Level{
			{Owner: owner(1), Since: at(2), Until: soon}, // the first one is not the first in the list
			{Owner: owner(1), First: true, Since: at(1), Until: soon.Add(-time.Second), Goroutine: 7, Whole: whole},
		}},
		{Name: "rw", Kind: terms.KindWrite, ReadKind: terms.KindRead, ValidUntil: far, Levels: []terms.Level{
			{Owner: owner(1), Reads: true, First: true, Since: at(3)},
			{Owner: owner(2), Reads: true, First: true, Since: at(4), Until: soon},
		}, Waits: []terms.Wait{{Owner: owner(5), Since: at(9), Site: site}, {Owner: owner(6), Reads: true, Since: at(9), Whole: whole}}},
		{Name: "both", Kind: terms.KindWrite, ReadKind: terms.KindRead, ValidUntil: far, Levels: []terms.Level{
			{Owner: owner(1), First: true, Since: at(6)}, {Owner: owner(1), Reads: true, Since: at(7)},
		}},
		{Name: "lapsed", Kind: terms.KindPlain, ValidUntil: time.Now(), Levels: []terms.Level{{Owner: owner(1), First: true}}},
		{Name: "over", Kind: terms.KindPlain, ValidUntil: far, Levels: []terms.Level{{Owner: owner(1), First: true, Until: time.Now()}}},
		plain("a", 3, 5),
	}}
	uses := Uses(f, true)
	assert.Equal(t, []string{
		"nested plain 1 x2 for a,b", "rw read 1 x1", "rw read 2 x1", "a plain 3 x1", "b plain 1 x1",
		"b plain 2 waits", "b plain 3 waits", "both write 1 x2", "rw write 5 waits", "rw read 6 waits for a,b",
	}, text(uses))
	assert.Equal(t, soon, uses[0].ValidUntil, "its longest level")
	assert.EqualValues(t, 7, uses[0].Goroutine)
	assert.Equal(t, *site, uses[0].Site)
	assert.Equal(t, far, uses[1].ValidUntil)
	assert.Equal(t, soon, uses[2].ValidUntil)
	assert.Equal(t, *site, uses[8].Site)
	assert.Equal(t, []string{"nested plain 1 x2 for a,b", "rw read 1 x1", "rw read 2 x1", "a plain 3 x1", "b plain 1 x1", "both write 1 x2"}, text(Uses(f, false)))
}

// Many owners, each with several levels in no order.
func TestTheLevelsOfManyOwnersAreToldApart(t *testing.T) {
	v := terms.View{Name: "rw", Kind: terms.KindWrite, ReadKind: terms.KindRead, ValidUntil: far}
	for i := range uint64(300) {
		v.Levels = append(v.Levels, terms.Level{Owner: owner(i%100 + 1), Reads: true, First: i < 100, Since: at(int(i))})
	}
	w := v
	w.Name = "rw2"
	uses := Uses(&fake{views: []terms.View{plain("other", 1, 0), v, plain("another", 1, 0), w}}, true)
	assert.Len(t, uses, 202)
	for i, u := range uses[4:] {
		assert.Equal(t, 3, u.Depth)
		assert.Equal(t, at(1+i/2), u.Since)
	}
	assert.True(t, slices.IsSortedFunc(uses, func(a, b Use) int { return a.Since.Compare(b.Since) }))
}

// A look costs as much as there are levels, whether they are of many locks or of one.
func BenchmarkUses(b *testing.B) {
	many := &fake{}
	for i := range 100_000 {
		many.views = append(many.views, plain(fmt.Sprint("lock", i), uint64(i), i*7919%100_000))
	}
	one := &fake{views: []terms.View{{Name: "rw", ReadKind: terms.KindRead, ValidUntil: far}}}
	for i := range 100_000 {
		one.views[0].Levels = append(one.views[0].Levels, terms.Level{Owner: owner(uint64(i)), Reads: true, First: true, Since: at(i)})
	}
	for name, f := range map[string]*fake{"locks": many, "readers": one} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Uses(f, true)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100_000, "ns/level")
		})
	}
}
