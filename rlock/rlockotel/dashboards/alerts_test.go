package dashboards_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/rlockotel/dashboards"
)

const cases = "alerts_test.yaml"

func TestEachAlertHasACaseInWhichItFiresAndOneInWhichItDoesNot(t *testing.T) {
	text, err := os.ReadFile(cases)
	require.NoError(t, err)
	alerts := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(dashboards.Alerts), -1)
	require.NotEmpty(t, alerts)
	for _, alert := range alerts {
		assert.Contains(t, string(text), "alertname: "+alert[1]+", exp_alerts: []")
		assert.Contains(t, string(text), "alertname: "+alert[1]+"\n        exp_alerts:\n          - exp_labels")
	}
}

func TestPromtoolFindsThatTheAlertsFireWhenTheyShould(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("there is no promtool: it comes with Prometheus")
	}
	_, err = os.Stat(cases) // so that go test knows that the result depends on it
	require.NoError(t, err)
	for _, args := range []string{"check rules alerts.yaml", "test rules " + cases} {
		out, err := exec.CommandContext(t.Context(), promtool, strings.Fields(args)...).CombinedOutput()
		assert.NoError(t, err, "%s: %s", args, out)
	}
}
