package inspect

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEachFigureIsAdded(t *testing.T) {
	var a, b Stats
	for i := range reflect.TypeFor[Stats]().NumField() {
		reflect.ValueOf(&a).Elem().Field(i).SetInt(int64(i))
		reflect.ValueOf(&b).Elem().Field(i).SetInt(1000)
	}
	sum := reflect.ValueOf(a.Add(b))
	for i := range sum.NumField() {
		assert.EqualValues(t, 1000+i, sum.Field(i).Int(), sum.Type().Field(i).Name)
	}
}
