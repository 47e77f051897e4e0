// Package dashboards has a Grafana dashboard and alert rules for Prometheus, which show and
// watch the metrics of package rlockotel. Import grafana.json into Grafana, which asks for
// the data source, and name alerts.yaml in the rule_files of Prometheus; or provision them
// from a program by the variables here.
//
// Both use the names that the Prometheus exporter of OpenTelemetry makes of the metrics by
// default, as lock_client_held. A test checks each name and each label against the metrics of a
// client.
package dashboards

import _ "embed" // for the files

// Grafana is the dashboard, in JSON.
//
//go:embed grafana.json
var Grafana []byte

// Alerts are the alert rules, in YAML.
//
//go:embed alerts.yaml
var Alerts []byte
