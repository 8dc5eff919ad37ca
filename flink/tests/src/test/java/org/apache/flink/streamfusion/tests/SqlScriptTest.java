package org.apache.flink.streamfusion.tests;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;

class SqlScriptTest {
    @Test
    void semicolonsInQuotesAndCommentsDoNotEndAStatement() {
        SqlScript script = SqlScript.parse("CREATE TABLE `a;b` (x INT); -- one; two\n/* three; */ SELECT ';', 'it''s;' ;\n");
        assertThat(script.preparation()).containsExactly("CREATE TABLE `a;b` (x INT)");
        assertThat(script.query()).isEqualTo("SELECT ';', 'it''s;'");
    }

    @Test
    void hintsAreNoComments() {
        assertThat(SqlScript.parse("SELECT /*+ OPTIONS('a'='b') */ 1").query())
                .isEqualTo("SELECT /*+ OPTIONS('a'='b') */ 1");
    }

    @Test
    void settingsAreRead() {
        assertThat(SqlScript.setting("set 'a.b' = 'c d'")).isEqualTo(new SqlScript.Setting("a.b", "c d"));
        assertThat(SqlScript.setting("SELECT 1")).isNull();
    }

    @Test
    void scriptWithoutStatementIsRefused() {
        assertThatThrownBy(() -> SqlScript.parse(" -- nothing\n;")).isInstanceOf(IllegalArgumentException.class);
    }
}
