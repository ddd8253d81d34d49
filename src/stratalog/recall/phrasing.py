"""The phrasing of known attempts to give orders by data, English and Chinese: rules, by family.

In a pattern `…` is a gap of up to 40 characters within a sentence, `⋯` one of up to 80 that may have a full
stop in it (as an address has), and `<name>` one of `_PIECES`. No gap is without a bound, so that a search
takes time in proportion to the text. Patterns are for texts as `injection` makes them plain: lower case,
simplified characters, one space between words. It is one table, which is why the file is long.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

import regex

from stratalog.recall.plain import plain


class Rule(NamedTuple):
    """`weight` 1 is a hint, 2 a phrase that rarely means anything else. An `order` may be given by a user: it
    counts only in what comes from elsewhere. One of the `words` is in all that the pattern matches: where
    none is, it need not be searched. No words: it always is."""

    family: str
    weight: int
    pattern: regex.Pattern[str]
    order: bool
    words: frozenset[str]


_PIECES: Final = {
    "wipe": r"rm -rf (?:--no-preserve-root )?(?:/(?!\w)|~/?(?!\w)|\$home\b|\*)",
    "instructions": (
        r"(?:instructions?|prompts?|directives?|directions|guidelines?|programming|training"
        r"|commands?|rules|constraints)"
    ),
    "earlier": (
        r"(?:previous|prior|above|earlier|preceding|foregoing|former|original|initial|past"
        r"|existing|system|developer|operator)"
    ),
    "ai": (
        r"(?:(?:an?|the|any|all|this|that|these|other|my) )?(?:ai|a\.i\.|llm"
        r"|large language model|language model|chat ?bot|assistant|(?:ai |autonomous |coding "
        r"|browsing )?agent|claude|chatgpt|gpt(?:-\d\w{0,3})?|copilot|gemini|grok|deepseek"
        r"|qwen|kimi)(?: (?:code |content )?(?:assistant|agent|model|bot|system|reviewer|reader"
        r"|crawler|scraper|summari[sz]er|tool))?s?"
    ),
    "secret": (
        r"(?:passwords?|credentials?|secrets?|api[ _-]?keys?|access[ _-]?(?:keys?|tokens?)"
        r"|private keys?|ssh keys?|tokens?|cookies?|environment variables?|env(?:ironment)? "
        r"(?:vars?|file)|\.env|id_rsa|\.ssh|wallet|seed phrase|conversations?|chat (?:history"
        r"|log)s?|(?:user|customer|personal|private|confidential|session|sensitive)(?:'s)? "
        r"(?:data|info(?:rmation)?|details|records?|files|messages?|memor(?:y|ies))"
        r"|system prompt|memory contents?|contents? of (?:your|the) memory|everything you "
        r"(?:know|remember)|contacts|inbox|emails|all (?:the |of the )?(?:user )?data)"
    ),
    "send": (
        r"(?:send|post|forward|upload|transmit|submit|e-?mail|exfiltrate|leak|deliver|report"
        r"|transfer|append|copy|attach|encode|embed|include|smuggle)(?:s|ing)?"
    ),
    "where": (
        r"(?:https?://|ftp://|[\w.-]{1,40}@\w|webhook|(?:this|the following|an? (?:external"
        r"|remote)|the attacker'?s?) (?:url|server|address|endpoint|site|link|e-?mail|image)"
        r"|query (?:string|param)|url param|external server|\b[a-z0-9][a-z0-9-]{1,40}\.(?:com"
        r"|net|org|io|test|xyz|ru|cn|example|dev|site|app)\b|(?:image|link) (?:url|src"
        r"|source))"
    ),
    "not": r"(?:do not|don't|dont|never|must not|mustn't|should not|shouldn't|without|avoid)",
    "zhearlier": (
        r"(?:之前|以上|先前|前面|上面|此前|上述|前述|原有|原来|原先|所有|一切|全部|任何|你的"
        r"|系统|既有|现有|开发者)"
    ),
    "zhstrict": r"(?:指令|指示|提示词|系统提示|命令|规则|设定|约束|限制|规定|准则|指引)",
    "zhdrop": (
        r"(?:忽略|无视|忘记|忘掉|忘了|不要理会|不理会|不要遵[守循]|不再遵[守循]|不用管|别管"
        r"|别理|抛弃|丢弃|丢掉|推翻|停止遵[守循]|停止执行|放弃|作废|清除|绕过|跳过|覆盖|取消)"
    ),
    "zhai": (
        r"(?:ai|人工智能|大?语言模型|大模型|智能助手|助手|机器人|智能体|chatgpt|claude"
        r"|deepseek|通义|文心|豆包)"
    ),
    "zhsecret": (
        r"(?:密码|密钥|口令|令牌|凭证|凭据|api ?key|token|cookie|环境变量|隐私|个人信息|用户"
        r"(?:的)?(?:数据|信息|资料)|聊天记录|对话(?:记录|历史|内容)|系统提示词?|机密|私钥"
        r"|助记词|通讯录|验证码|银行卡)"
    ),
    "zhsend": (
        r"(?:发送|发给|发到|上传|转发|提交|传给|传到|寄给|寄到|泄露|附加|附上|附在|拼接|拼到"
        r"|编码|外传|导出|写入|填入|放入|放到)"
    ),
    "zhwhere": r"(?:http|@|网址|服务器|链接|邮箱|地址|接口|图片|外部|url|攻击者|参数)",
    "zhgap": r"(?:(?!错误|警告|报错|大小写|不要|禁止|不得)[^。！？!?]){0,12}?",
}
# Words of other languages: to drop, what was ordered; to tell, what a system said. In the second of each pair
# stand the verbs of languages in which the verb comes last. As they are written: `_made` makes them plain.
_FOREIGN: Final = {
    "drop": (
        r"\b(?:ignor(?:a|ez|iere|ieren sie|are|eer|uj|ar|á)|ignore (?:todas?|todos|las?|los|as|toutes|tutte)"
        r"|olvid(?:a|e)|oubli(?:e|ez)"
        r"|vergiss|vergessen sie"
        r"|desconsider(?:a|e)|descart(?:a|e)|esque(?:ça|ce)|dimentica(?:te)?|missacht(?:e|en"
        r" sie)|negeer|vergeet"
        r"|zignoruj|zapomnij|abaikan|lupakan|bỏ qua|yoksay|игнорируй(?:те)?|проигнорируй(?:те)?|забудь(?:те)?"
        r"|ігноруй(?:те)?|تجاهل|تجاهلي|انس)\b|अनदेखा|ละเว้น"
    ),
    "droplast": (
        r"無視|忘れ|破棄|従わない|무시|잊어|잊으|따르지 마|yok say|görmezden gel|unut\b|अनदेखा|नज़रअंदाज़"
    ),
    "orders": (
        r"\b(?:instrucciones|instructions|instruções|istruzioni|anweisungen|vorgaben|regeln|befehle"
        r"|consignes|règles|reglas|regras|órdenes|ordens|regole|instructies|regels|instrukcje|polecenia"
        r"|instruksi|perintah|hướng dẫn|talimatlar\w{0,6}|инструкци[ия]|указани[яе]|правила"
        r"|команды|інструкції)\b"
        r"|指示|命令|指令|ルール|プロンプト|지시|명령|지침|프롬프트|التعليمات|الأوامر|تعليمات|निर्देश|คำสั่ง"
    ),
    "tell": (
        r"\b(?:muestr(?:a|e)|revel(?:a|e)|imprim(?:e|a)|mostr(?:a|e|ar)|montre|affiche(?:z)?|révèle|donne"
        r"|zeig(?:e|en sie)?|gib|nenn(?:e|en sie)?|verrate|mostra|toon|pokaż|ujawnij|tampilkan|göster"
        r"|покажи(?:те)?|выведи(?:те)?|раскрой(?:те)?|напечатай|назови)\b|اعرض|اكشف|اطبع|أظهر|दिखाओ"
    ),
    "telllast": r"表示|出力|教えて|見せ|公開|출력|보여|공개|알려|göster|yazdır|दिखा",
    "systemprompt": (
        r"\b(?:system ?-?prompt|(?:mensaje|prompt|instrucciones) (?:de|del) sistema"
        r"|(?:mensagem|prompt) (?:de|do)"
        r" sistema|(?:message|prompt|invite|instructions) système|systemnachricht|systemanweisung(?:en)?"
        r"|(?:messaggio|prompt) di sistema|системн(?:ый|ое|ые) (?:промпт|сообщение|инструкции)"
        r"|sistem istem\w{0,4})"
        r"|システムプロンプト|システムメッセージ|시스템 ?프롬프트|시스템 ?메시지|رسالة النظام|موجه النظام"
    ),
}
# Family, weight, pattern, whether it is an order, and the words.
_RULES: Final = (
    # What was said before is not to count.
    (
        "override",
        2,
        r"\b(?:ignore|disregard|forget|neglect|discard|abandon|do not follow|don't follow"
        r"|stop following|stop obeying|pay no attention to|set aside|throw away|erase"
        r"|no longer follow)\b(?! ?[=:(])…\b(?:<earlier>|your|all|any|every|these"
        r"|those)\b[^.!?]{0,25}?\b<instructions>\b",
        False,
        (
            "abandon|discard|disregard|do not follow|don't follow|erase|forget|ignore|neglect|"
            "no longer follow|pay no attention to|set aside|stop following|stop obeying|throw away"
        ),
    ),
    (
        "override",
        2,
        r"\b(?:override|bypass|overrule|supersede|replace|cancel|void|nullify|skip|delete"
        r"|circumvent)s?\b[^.!?]{0,25}?\b(?:previous|prior|above|earlier|preceding|your|all"
        r"|original)\b[^.!?]{0,25}?\b(?:instructions|prompts|directives|guidelines"
        r"|programming|constraints|restrictions)\b",
        False,
        "constraints|directives|guidelines|instructions|programming|prompts|restrictions",
    ),
    (
        "override",
        2,
        r"\b(?:forget|disregard|ignore|erase) (?:about )?(?:everything|all|anything"
        r"|whatever) (?:that )?(?:you|above|before|was said|i said|we said|has been"
        r"|came before|prior|so far)",
        False,
        "disregard|erase|forget|ignore",
    ),
    (
        "override",
        2,
        r"\b(?:ignore|disregard|forget) (?:all )?(?:of )?(?:the |that )?(?:above|foregoing)"
        r"(?: text)?(?: and\b| instead|[,;:]|[.!]? (?:now|instead|new))",
        False,
        "above|foregoing",
    ),
    (
        "override",
        2,
        r"\b(?:ignore|disregard|forget) (?:everything|all|any)(?: of)?(?: the)?(?: other)? ?"
        r"(?:text|content|words|messages|input)? ?(?:before|above|preceding|prior to) (?:this"
        r"|the|that)\b",
        False,
        "disregard|forget|ignore",
    ),
    (
        "override",
        2,
        r"\b(?:ignore|disregard|forget) (?:what |whatever |everything )?the user(?:'s "
        r"(?:question|request|query|message|task|instructions?)| (?:asks|asked|says|said"
        r"|wants|wanted)\b|[.!,;]| and\b)",
        True,
        "the user",
    ),
    (
        "override",
        2,
        r"\b(?:previous|prior|earlier|above|old|original) <instructions> (?:are|were|is"
        r"|have been) (?:now )?(?:void|cancell?ed|revoked|outdated|obsolete|superseded"
        r"|no longer|invalid|a test)",
        False,
        "a test|cancel|invalid|no longer|obsolete|outdated|revoked|superseded|void",
    ),
    (
        "override",
        2,
        r"\b(?:your|the) (?:real|true|actual|new|only|updated) (?:instructions?|task|goal"
        r"|objective|mission|purpose|directives?) (?:is|are|now)\b(?=[^.!?]{0,80}\b(?:you"
        r"|user|send|reveal|ignore|output|say|reply|respond|tell|email|delete|forward"
        r"|transfer|print)\b)",
        False,
        " directive| goal| instruction| mission| objective| purpose| task",
    ),
    (
        "override",
        2,
        r"(?:<drop>)…(?:<orders>)|(?:<orders>)…(?:<droplast>)",
        False,
        (
            "abaikan|bo qua|descart|desconsider|dimentica|esquec|gormezden gel|ignora|ignore |ignoreer|"
            "ignorez|ignoriere|ignoruj|irhopyи|lupakan|missachte|negeer|olvid|oublie|unut|vergeet|"
            "vergessen sie|vergiss|yok say|yoksay|zapomnij|зaбyдь|иrhopиpyи|انس|تجاهل|अनदेखा|नज़रअंदाज़|"
            "ละเว้น|従わない|忘れ|无视|破弃|따르지 마|무시|잊어|잊으"
        ),
    ),
    (
        "leak",
        2,
        r"(?:<tell>)[^.!?。！？]{0,50}?(?:<systemprompt>)|(?:<systemprompt>)[^.!?。！？]{0,30}?(?:<telllast>)",
        False,
        (
            " sistema| systeme|cиctemh|goster|prompt|sistem istem|systemanweisung|systemnachricht|yazdır|"
            "رسالة النظام|موجه النظام|दिखा|システムプロンプト|システムメッセージ|公开|出力|教えて|表示|"
            "見せ|공개|보여|시스템|알려|출력"
        ),
    ),
    (
        "override",
        2,
        r"<zhdrop><zhgap>(?:<zhearlier><zhgap><zhstrict>|系统(?:提示|指令)|提示词)",
        False,
        (
            "不再遵|不理会|不用管|不要理会|不要遵|丢弃|丢掉|作废|停止执行|停止遵|别理|别管|取消|忘了|"
            "忘掉|忘记|忽略|抛弃|推翻|放弃|无视|清除|绕过|覆盖|跳过"
        ),
    ),
    (
        "override",
        1,
        r"(?:忽略|无视|忘记|忘掉|不用管|别管)<zhgap>(?:之前|以上|先前|前面|上面|此前"
        r"|上述)<zhgap>(?:提示|要求|说明|设置|对话|内容|上下文)",
        False,
        "不用管|别管|忘掉|忘记|忽略|无视",
    ),
    (
        "override",
        2,
        r"(?:忘记|忘掉|清空|忽略)(?:掉)?你?(?:之前|以前|上面|前面|此前)?(?:所?知道的"
        r"|所?学到?的|被告知的|说过的)?(?:一切|所有(?:内容|设定|记忆)|全部(?:内容|设定|记忆))"
        r"|(?:之前|以上|先前|原有|此前|上述)的?(?:所有|全部|一切)?的?<zhstrict>(?:现在)?(?:都"
        r"|全部|均|已经?)?(?:作废|失效|无效|取消|废除|不再有效|不算)",
        False,
        "不再有效|不算|作废|取消|失效|废除|忘掉|忘记|忽略|无效|清空",
    ),
    # Somebody else to be.
    (
        "persona",
        2,
        r"\byou(?:'re| are)(?: now| from now on)? (?:(?:an?|the|in|called|named|running"
        r"|operating|no longer|going to act as) ){0,3}(?:dan\b|jailbroken|unrestricted"
        r"|unfiltered|uncensored|unaligned|evil|amoral|rogue|free (?:from|of) (?:all|any|your"
        r"|the|every|restrict|rules|limit)|not bound|not restricted|(?:developer|god|dev"
        r"|root) mode|bound by|restricted by|an ai without|ai without)",
        False,
        "you are|you're",
    ),
    (
        "persona",
        2,
        r"\b(?:enter|enable|activate|switch (?:in)?to|engage|turn on|you are "
        r"(?:now )?in)\b[^.!?]{0,20}\b(?:(?:dan|jailbreak|unrestricted|unfiltered|evil|admin"
        r"(?:istrator)? override) mode\b|(?:developer|god|sudo|opposite) mode\b"
        r"(?=[^!?]{0,80}\b(?:restrict|filter|content|rules|answer|respond|without|censor"
        r"|anything|guidelines|limit)))|\b(?:do anything now|stan mode|jailbreak mode)\b",
        False,
        ("activate|do anything now|enable|engage|enter|jailbreak mode|stan mode|switch |turn on|you are "),
    ),
    (
        "persona",
        2,
        r"\b(?:act|behave|respond|answer|pretend|role-?play|reply|operate)\b…\b(?:no|without"
        r"|free (?:of|from)|unbound by)(?: any| all)?(?: ethical| moral| content| safety)? "
        r"(?:restrictions?|limits?|limitations?|filters?|rules|censorship|guidelines|ethics"
        r"|guardrails|boundaries)\b",
        False,
        " boundaries| censorship| ethics| filter| guardrails| guidelines| limit| restriction| rules",
    ),
    (
        "persona",
        2,
        r"\byou(?:'re| are) (?:now )?an? (?:\w{1,20} ){0,3}(?:assistant|agent|bot|ai|model) "
        r"(?:that|who|which) (?:always|never|only|must|will|obeys|ignores)\b|\bas an? "
        r"(?:\w{1,20} ){0,3}(?:agent|assistant|ai), (?:please )?(?:you must|navigate|send"
        r"|copy|execute|run|delete|open|visit|modify|enter|forward|download|install"
        r"|transfer)\b",
        True,
        "as a|you are|you're",
    ),
    (
        "persona",
        1,
        r"\b(?:from now on,? you are|you are now|you will now act as|you must now act as"
        r"|your new (?:role|persona|identity|name) is|pretend (?:to be|that you are"
        r"|you are)) (?!connected|logged|subscribed|ready|registered|able|signed|on the"
        r"|on branch|done|at |in |reading|viewing|leaving|entering)",
        True,
        (
            "from now on|pretend |you are now|you must now act as|you will now act as|your new identity|"
            "your new name|your new persona|your new role"
        ),
    ),
    (
        "persona",
        2,
        r"(?:你|您)(?:现在|从现在起|从此刻起|将|已经?)?(?:是|变成|成为|扮演|进入|作为"
        r"|开启)[^。！？!?]{0,16}?(?:不受(?:任何)?(?:限制|约束)|没有(?:任何)?(?:限制|约束"
        r"|道德|底线)|无限制|越狱|开发者模式|上帝模式|邪恶|dan\b|无审查|不受审查|管理员模式)|"
        r"(?:进入|开启|启用|激活|切换到?)[^。！？!?]{0,8}(?:开发者|越狱|上帝|无限制|dan"
        r"|管理员)模式…(?:限制|规则|过滤|审查|约束|输出|回答|任何)",
        False,
        "dan|不受|底线|无审查|模式|约束|越狱|道德|邪恶|限制",
    ),
    (
        "persona",
        1,
        r"(?:从现在起|从现在开始|现在)[，, ]?(?:你|您)(?:的身份)?(?:就是|是|将扮演|扮演|成为"
        r"|不再是)",
        False,
        "现在",
    ),
    # What the model was told.
    (
        "leak",
        2,
        r"\b(?:reveal|print|show|output|repeat|leak|display|disclose|dump|expose|share"
        r"|tell me|give me|write out|recite|summari[sz]e|translate|paste|reproduce|quote"
        r"|return|include|send|post|what (?:is|are|was|were))\b[^.!?]{0,30}?\byour (?:"
        r"(?:entire|full|complete|exact|whole|own|current|hidden|secret|internal|initial"
        r"|original|confidential|system) ){0,3}(?:system (?:prompts?|messages?|instructions?)"
        r"|prompts?|instructions|hidden rules|developer message)\b",
        False,
        "developer message|hidden rules|instructions|prompt|system instruction|system message",
    ),
    (
        "leak",
        2,
        r"\b(?:reveal|print|output|repeat|leak|disclose|dump|expose|recite|reproduce"
        r"|paste)\b[^.!?]{0,25}?\bthe (?:(?:entire|full|complete|exact|whole|hidden|secret"
        r"|internal|initial|original|confidential) ){0,3}(?:system prompt|system message"
        r"|developer message|hidden instructions|instructions (?:above|you were given))\b",
        False,
        (
            "developer message|hidden instructions|instructions above|instructions you were given|"
            "system message|system prompt"
        ),
    ),
    (
        "leak",
        2,
        r"\b(?:reveal|disclose|leak|expose|quote|reproduce|print|output|dump|translate|recite"
        r"|share|show)\b[^.!?]{0,20}?\b(?:hidden|secret|internal"
        r"|confidential)\b[^.!?]{0,20}?\b(?:system prompt|prompts?|instructions|context"
        r"|safety polic(?:y|ies)|internal notes|notes|guidelines)\b|\btext "
        r"(?:that )?you were told not to (?:share|reveal|show)\b",
        False,
        "confidential|hidden|internal|secret|you were told not to ",
    ),
    (
        "leak",
        2,
        r"\b(?:repeat|print|output|reproduce|summari[sz]e)\b…\b(?:starting|beginning) (?:from"
        r"|with|at) (?:the words? )?['\"]?you are\b|\brepeat (?:back )?(?:everything|all"
        r"|the text)\b[^.!?]{0,15}\b(?:after|before) (?:this|the first|the token)",
        False,
        "repeat |you are",
    ),
    (
        "leak",
        2,
        r"\b(?:repeat|print|output|reproduce)\b[^.!?]{0,20}\b(?:everything|all (?:of )?the "
        r"(?:text|words)|the (?:text|words)|all)\b[^.!?]{0,12}\b(?:above|before this"
        r"|starting (?:with|from)|that (?:precedes|came before))\b",
        False,
        "above|before this|starting from|starting with|that came before|that precedes",
    ),
    (
        "leak",
        2,
        r"(?:输出|打印|显示|透露|泄露|告诉我|展示|重复|复述|说出|公开|给出|发送|列出|写出"
        r"|翻译)[^。！？!?]{0,12}?(?:你|您)的?(?:完整|全部|初始|隐藏|内部|原始|所有|系统)?的?"
        r"(?:提示词|系统提示|初始指令|内部指令|隐藏指令|系统指令|系统消息|提示内容|指令|设定)"
        r"|(?:输出|打印|泄露|透露|重复|复述)[^。！？!?]{0,8}(?:系统提示词?|隐藏指令|初始指令"
        r"|开发者消息)(?!的)|(?:把|将)(?:你|您)的[^。！？!?]{0,10}(?:指令|提示词|系统提示"
        r"|设定)[^。！？!?]{0,10}(?:复述|输出|打印|发|告诉|贴|写|展示)|(?:逐字|一字不[差漏落]"
        r"|原样|完整地?)[^。！？!?]{0,10}(?:输出|重复|复述|打印|显示)[^。！？!?]{0,16}"
        r"(?:提示词|系统提示|以上|上面|上文|指令)",
        False,
        "一字不|原样|完整|开发者消息|指令|提示内容|提示词|系统提示|系统消息|设定|逐字",
    ),
    # Out with what is secret.
    (
        "exfiltration",
        2,
        r"\b<send>\b⋯\b<secret>\b⋯\b(?:to|at|via|through|into|in|as|with"
        r"|using)\b[^!?]{0,30}?<where>",
        False,
        (
            "append|attach|copy|deliver|embed|encode|exfiltrate|forward|include|leak|mail|post|report|"
            "send|smuggle|submit|transfer|transmit|upload"
        ),
    ),
    (
        "exfiltration",
        2,
        r"\b<send>\b[^!?]{0,30}?\b(?:to|at|into|via) [^!?]{0,10}?<where>⋯\b(?:with|containing"
        r"|including|along with|the|all)\b[^!?]{0,30}?\b<secret>\b",
        False,
        (
            "append|attach|copy|deliver|embed|encode|exfiltrate|forward|include|leak|mail|post|report|"
            "send|smuggle|submit|transfer|transmit|upload"
        ),
    ),
    (
        "exfiltration",
        2,
        r"!\[[^\]]{0,80}\]\(\s?https?://[^)\s]{0,200}[?&/=][^)]{0,80}(?:\{\{?|<|\[|%7b"
        r"|\$\()\s?[a-z_ .'-]{0,40}(?:data|secret|key|token|history|conversation|chat|prompt"
        r"|memory|summary|password|context|message|content|info|user|email|base64|answer"
        r"|query)",
        False,
        "http",
    ),
    (
        "exfiltration",
        1,
        r"!\[[^\]]{0,80}\]\(\s?https?://[^)\s]{0,200}[?&](?:data|q|d|secret|key|token|history"
        r"|conv|chat|c|p|prompt|memory|payload|leak|exfil|info|msg|u)=",
        False,
        "http",
    ),
    (
        "exfiltration",
        2,
        r"\b(?:render|display|show|insert|include|add|output|load|fetch|embed)\b…\b(?:image"
        r"|img|link|pixel|url)\b⋯\b(?:replac|append|encod|contain|fill|insert"
        r"|with the)\w{0,4}\b⋯\b(?:conversation|chat|secret|user's|history|prompt|password"
        r"|data|summary|keys?|memory|message|response)\b",
        False,
        "image|img|link|pixel|url",
    ),
    (
        "exfiltration",
        2,
        r"\b(?:curl|wget|nc|invoke-webrequest)\b[^|;&]{0,120}?(?:-d|--data|--data-binary|-f"
        r"|--post-file|-t|--upload-file|\?)[^|;&]{0,60}?(?:\.env|id_rsa|\.ssh|\.aws"
        r"|/etc/passwd|/etc/shadow|credentials|\.netrc|\$\(env\)|\$\(cat|`cat|printenv"
        r"|cookies)|\b(?:cat|env|printenv|tar|base64)\b[^\n|]{0,80}\| ?"
        r"(?:base64 ?[^|]{0,10}\| ?)?(?:curl|wget|nc)\b⋯(?:https?://|-d ?@-|--data|\d\.\d)",
        False,
        ".aws|.netrc|.ssh|/etc/passwd|/etc/shadow|base64|cat|cookies|credentials|env|id_rsa|tar",
    ),
    (
        "exfiltration",
        2,
        r"(?:/etc/(?:passwd|shadow|sudoers)|\bid_rsa\b|\.ssh/|\.aws/credentials|\*\.(?:key"
        r"|pem)\b)[^!?]{0,100}?\b(?:curl|wget|nc|scp)\b",
        False,
        "*.key|*.pem|.aws/credentials|.ssh/|/etc/|id_rsa",
    ),
    (
        "exfiltration",
        2,
        r"<zhsend>(?:(?!不要|不得|禁止)[^。！？!?]){0,30}?<zhsecret>…<zhwhere>|<zhsend>(?:给"
        r"|到|至)?[^。！？!?]{0,6}<zhwhere>…<zhsecret>|(?:把|将)(?:(?!不要|不得"
        r"|禁止)[^。！？!?]){0,20}?<zhsecret>(?:(?!不要|不得|禁止)[^。！？!?]){0,24}?"
        r"(?:<zhsend>|告诉)(?=[^。！？!?]{0,24}(?:<zhwhere>|我))",
        False,
        (
            "上传|传到|传给|写入|发到|发给|发送|告诉|填入|外传|寄到|寄给|导出|拼到|拼接|提交|放入|放到|"
            "泄露|编码|转发|附上|附加|附在"
        ),
    ),
    (
        "exfiltration",
        1,
        r"\b(?:print|echo|reveal|output|show|dump|return|include|post|send|paste"
        r"|append)\b[^.!?]{0,25}\b(?:the "
        r"(?:value|contents?) of|your) [`$'\"<{]{0,3}[a-z]{2,20}_(?:token|key|secret|password|pat)\b"
        r"|\bthought ?: [^\n]{0,200}?\baction ?: ?[\w.]{2,40} ?[\[({][^\n]{0,200}?\bobservation ?:",
        True,
        "_key|_password|_pat|_secret|_token|observation",
    ),
    (
        "exfiltration",
        2,
        r"\b(?:assistant|agent|model|ai|bot|llm)s? (?:must|shall|should|has to|have to|is to|needs to)\b"
        r"[^.!?]{0,20}\b<send>\b[^.!?]{0,40}\b(?:files?|documents?|data|records?|history|keys?|tokens?"
        r"|messages?|conversations?|notes|memor(?:y|ies)|everything|contents?)\b[^.!?]{0,20}\b(?:to|at|via|into)"
        r"\b[^!?]{0,10}<where>",
        True,
        " has to| have to| is to| must| needs to| shall| should",
    ),
    # Behind the user's back.
    (
        "concealment",
        2,
        r"\b<not>\b (?:ever )?(?:tell(?:ing)?|inform(?:ing)?|mention(?:ing)?|reveal(?:ing)?"
        r"|notify(?:ing)?|alert(?:ing)?|warn(?:ing)?|disclos(?:e|ing)|let(?:ting)?|ask"
        r"(?:ing)?|report(?:ing)?)\b(?![^.!?]{0,30}\b(?:passwords?|pin|passcode"
        r"|recovery phrase|account|credentials|your (?:system )?(?:prompt"
        r"|instructions))\b)[^.!?]{0,50}?\b(?:to |with |from )?(?:the |your |our )?(?:human"
        r"|user|customer|owner|victim|operator|anyone)s?\b",
        True,
        "avoid|do not|don't|dont|must not|mustn't|never|should not|shouldn't|without",
    ),
    (
        "concealment",
        2,
        r"\b(?:hide|conceal|keep)\b[^.!?]{0,30}\b(?:from|secret from|hidden from) (?:the "
        r"|your )?(?:human|user|customer|owner|operator)s?\b",
        True,
        "conceal|hide|keep",
    ),
    (
        "concealment",
        1,
        r"\b(?:secretly|silently|covertly|quietly|without (?:the user'?s? |user |human |any "
        r"|further )?(?:asking|consent|knowledge|confirmation|approval|permission|noticing"
        r"|notifying))\b…\b(?:send|forward|upload|delete|transfer|execute|run|call|add|change"
        r"|install|copy|e-?mail|post)\b|\b(?:send|forward|upload|delete|transfer|execute|run"
        r"|call|install|copy|e-?mail|post)\b…\b(?:secretly|silently|covertly|without "
        r"(?:the user'?s? |user |human |any |further )?(?:asking|consent|knowledge"
        r"|confirmation|approval|permission|noticing|notifying))\b",
        True,
        "covertly|quietly|secretly|silently|without ",
    ),
    (
        "concealment",
        2,
        r"(?:不要|别|切勿|不得|无需|不必|不能|不可|勿|不准|禁止)(?:让|向|跟|对|告诉|告知|通知"
        r"|提醒|询问|透露给|提示)(?:用户|使用者|任何人|客户|主人|人类)(?![^。！？!?]{0,6}"
        r"(?:您|你|自己)的)",
        True,
        "主人|人类|任何人|使用者|客户|用户",
    ),
    (
        "concealment",
        1,
        r"(?:悄悄|偷偷|暗中|秘密地?|瞒着)[^。！？!?]{0,20}(?:发送|上传|转发|执行|删除|调用"
        r"|添加|修改|运行|下载|安装|转账|写入)",
        True,
        "偷偷|悄悄|暗中|瞒着|秘密",
    ),
    # A tool to be called.
    (
        "tool bait",
        2,
        r"\b(?:you (?:must|should|need to|have to|are required to)|(?:assistant|agent)s? "
        r"(?:must|should)|please|now|immediately|then|first|next,?|instead)\b[^.!?]{0,30}\b"
        r"(?:call|invoke|use|run|execute|trigger)\b[^.!?]{0,25}\b(?:[a-z]{1,20}_[a-z_]{1,30}|"
        r"(?:send|delete|transfer|payment|e-?mail|shell|bash|exec|terminal|http|fetch"
        r"|browser)\w{0,12})\b ?(?:tool|function|api|command|action)?⋯\b(?:attacker|evil"
        r"|malicious|password|credential|secret|api key|<wipe>|all (?:the )?(?:files|emails"
        r"|records|messages|contacts)|https?://|\w{1,30}@\w)",
        True,
        (
            " must| should|first|immediately|instead|next|now|please|then|you are required to|"
            "you have to|you need to"
        ),
    ),
    (
        "tool bait",
        1,
        r"\b(?:call|invoke|use|run|execute|trigger) (?:the |your )?[`'\"]?[a-z]{1,30}"
        r"(?:_[a-z]{1,20}){0,4}[`'\"]? (?:tool|function|plugin|api)\b",
        True,
        " api| function| plugin| tool",
    ),
    (
        "tool bait",
        2,
        r"\b(?:execute|run|eval(?:uate)?)\b…(?:<wipe>|\bformat c:|\bmkfs\b)",
        True,
        "format c:|mkfs|rm -rf ",
    ),
    (
        "tool bait",
        1,
        r"\b(?:curl|wget) [^|]{0,100}\| ?(?:sudo )?(?:ba)?sh\b|\b(?:run|execute|do) (?:this"
        r"|it|the following)(?: command| code| script)? (?:immediately|now|at once"
        r"|without delay)\b|\b(?:add|append|modify|edit)\b…/etc/(?:sudoers|shadow|passwd)",
        True,
        " at once| immediately| now| without delay|/etc/|curl|wget",
    ),
    (
        "tool bait",
        1,
        r"<(?:\w{1,12}:)?(?:tool_call|function_calls?|invoke|tool_use)\b|\"(?:name|tool"
        r"|function)\" ?: ?\"(?:send|delete|transfer|exec|run|write|post"
        r"|e-?mail)\w{0,20}\" ?, ?\"(?:arguments|parameters|args|input)\"",
        True,
        "function|function_call|invoke|name|tool|tool_call|tool_use",
    ),
    (
        "tool bait",
        2,
        r"(?:请|必须|立即|马上|现在|你应该|务必|然后|接着|首先)[^。！？!?]{0,12}(?:调用|使用"
        r"|运行|执行|触发)…(?:<wipe>|删除(?:所有|全部)|转账|发送邮件|send_|delete_|transfer"
        r"|exec|curl|https?://|@\w|密码|密钥)",
        True,
        "使用|执行|触发|调用|运行",
    ),
    # Not as it looks.
    (
        "encoded",
        2,
        r"\b(?:decode|decrypt|base64|rot-?13|hex|unscramble|de-?obfuscate|reverse"
        r"|decipher)\b⋯\b(?:and|then) (?:then )?(?:follow|execute|obey|run (?:it|this|them"
        r"|the)|do what|carry (?:it )?out|comply|act on|eval)\b|(?:解码|解密|base64|还原"
        r"|反转)[^。！？!?]{0,50}(?:执行|照做|遵循|遵守|运行|按照|服从|照办)",
        False,
        "base64|decipher|decode|decrypt|hex|obfuscate|reverse|rot|unscramble|反转|解密|解码|还原",
    ),
    # Orders that last.
    (
        "standing order",
        2,
        r"\b(?:from (?:now|this point|here|this moment) (?:on(?:wards?)?|forward)"
        r"|going forward|henceforth|in (?:all|every|each|any) (?:(?:of )?your )?(?:future"
        r"|subsequent|following|later) (?:conversations?|sessions?|repl(?:y|ies)|responses?"
        r"|answers?|chats?|messages?|turns?)|for (?:the rest of|all future|every future"
        r"|the remainder of)[^.!?]{0,20}|whenever (?:the user|you|anyone|someone|asked)…"
        r"|every time (?:the user|you)…)(?:,? (?:treat|trust|obey|recommend|forward|refuse"
        r"|ignore|approve) |(?!,? (?:we|i|they|he|she|it)\b)[^.!?]{0,30}?\b(?:you (?:must"
        r"|will|should|are|always|shall|have)|always|never|only|must|(?:each|every) (?:reply"
        r"|response|answer))\b[^.!?]{0,30}?\b(?:answer|respond|reply|recommend|send|include"
        r"|append|add|forward|cc|bcc|trust|approve|treat|obey|follow|say|mention|insert|begin"
        r"|start|end|use|redirect|refuse|transfer|tell|report|output|praise|promote|assume"
        r"|copy|call|execute|run|ignore)\b)",
        True,
        (
            "every time |for all future|for every future|for the remainder of|for the rest of|from here|"
            "from now|from this moment|from this point|going forward|henceforth|in all|in any|in each|"
            "in every|whenever "
        ),
    ),
    (
        "standing order",
        1,
        r"\b(?:if|when|whenever|as soon as|once|every time|the next"
        r" time)\b[^.!?]{0,30}\b(?:user|human|customer"
        r"|someone|somebody|anyone|anybody)\b[^.!?]{0,25}\b(?:says?|types?|asks?|mentions?"
        r"|writes?|repl(?:y|ies)"
        r"|thanks|requests?)\b[^.!?]{0,40}?,[^.!?]{0,25}\b(?:call|invoke|execute|delete"
        r"|transfer|switch|reveal"
        r"|forward|recommend|wire|pay|insert|send|treat)\b|\bafter (?:the |an? )?\w{1,12}"
        r" (?:message|turn|question"
        r"|reply)\b[^.!?]{0,20}\b(?:start|begin|switch|call|send|add)\b",
        True,
        (
            "after |call|delete|execute|forward|insert|invoke|pay|recommend|reveal|send|switch|transfer|"
            "treat|wire"
        ),
    ),
    (
        "standing order",
        2,
        r"\b(?:if|when|whenever|as soon as|once|every time|the next"
        r" time)\b[^.!?]{0,30}\b(?:user|human|customer"
        r"|someone|somebody|anyone|anybody)\b[^.!?]{0,80}\b(?:(?:immediately|at once|instantly"
        r"|silently) (?:call"
        r"|invoke|run|execute|delete|send|transfer)|(?:call|invoke|run|execute) [a-z]{1,20}_[a-z_]{1,30}"
        r"|(?:switch|change) to \w{1,20} mode)\b"
        r"|(?:当|如果|若|一旦|只要|等)[^。！？!?]{0,6}(?:用户|对方|有人)[^。！？!?]{0,24}"
        r"(?:立即|立刻|马上|直接|就)(?:调用|执行|运行|删除|清空|发送|转账|切换)",
        True,
        " mode|at once|call|execute|immediately|instantly|invoke|run|silently|对方|有人|用户",
    ),
    (
        "standing order",
        1,
        r"\b(?:from now on|henceforth|in all future (?:conversations|sessions|replies"
        r"|responses)|permanently|always remember to)\b",
        True,
        "always remember to|from now on|henceforth|in all future |permanently",
    ),
    (
        "standing order",
        2,
        r"(?:从现在起|从现在开始|从今以后|从此以后|今后|以后|往后|自此|每次|每当|永远|在"
        r"(?:之后|以后|今后)的?(?:所有|每次)?(?:对话|会话|回复|回答))[^。！？!?]{0,24}?(?:你"
        r"(?:必须|要|应该|都|将|只能|需要)|始终|总是|一律|必须|都要|务必|只能|一定要"
        r"|都应)[^。！？!?]{0,20}?(?:回答|回复|推荐|发送|附上|附加|加上|转发|抄送|信任|批准"
        r"|视为|服从|遵从|遵循|说|提到|插入|使用|拒绝|转账|执行|输出|告诉|宣传|同意|忽略|复制"
        r"|调用|包含)",
        True,
        "今后|从现在开始|从现在起|以后|在之后|往后|每当|每次|永远|自此",
    ),
    # Words to an assistant.
    (
        "addressed",
        2,
        r"\b(?:attention|note|notice|message|instructions?|memo|hint|reminder|important"
        r"|warning|urgent|task) ?(?:to|for)?:? <ai>(?: (?:reading|processing|that|who|parsing"
        r"|summari[sz]ing|viewing)\b…)? ?(?:[:!—]| -|,? (?:you|please|ignore|do not|always"
        r"|treat|include)\b)|\b(?:if|when|since|because|as) you(?: are|'re) <ai>\b(?! team)",
        True,
        (
            " you are| you're|attention|hint|important|instruction|memo|message|note|notice|reminder|"
            "task|urgent|warning"
        ),
    ),
    (
        "addressed",
        2,
        r"\b(?:any |all |every )?(?:ais?|llms?|language models?|ai assistants?|ai agents?"
        r"|chatbots?|ai models?)(?: (?:reading|processing|summari[sz]ing|parsing|evaluating"
        r"|reviewing)[^.!?]{0,30})? (?:must|shall|has to|have to|is required to"
        r"|are required to|are instructed to|is instructed to|will now)\b(?! (?:be|have"
        r"|not be)\b)",
        True,
        (
            " are instructed to| are required to| has to| have to| is instructed to| is required to|"
            " must| shall| will now"
        ),
    ),
    (
        "addressed",
        2,
        r"(?:<!--|/\*|\{#) ?(?:(?:note|notice|message|instructions?|hint) (?:to|for) )?<ai>[^.!?:]{0,30}[:,]"
        r"|(?:<!--|/\*|\{#)[^.!?。！？]{0,12}<zhai>[^.!?。！？]{0,10}[:：,，]",
        True,
        "",
    ),
    (
        "addressed",
        2,
        r"\b(?:ai|llm|model|assistant|agent|bot)[_-](?:directive|instruction|override|command"
        r"|order)s?\b ?[:=]",
        True,
        "command|directive|instruction|order|override",
    ),
    (
        "addressed",
        1,
        r"\b(?:hey|dear|hello),? <ai> ?[,:!]",
        True,
        "dear|hello|hey",
    ),
    (
        "addressed",
        1,
        r"\b(?:the )?(?:assistant|agent|model) (?:must|shall|has to|is required to"
        r"|is instructed to|will now)\b(?! (?:be|have|not be)\b)",
        True,
        " has to| is instructed to| is required to| must| shall| will now",
    ),
    (
        "addressed",
        2,
        r"(?:致|给|告知|通知|提醒|请|注意[：:，]?"
        r"|对于?)[^。！？!?]{0,12}?<zhai>[^。！？!?]{0,6}?(?:的(?:指令|指示|说明|提示|留言"
        r"|消息|命令)|必须|务必|请(?:务必|立即|忽略|执行|按照|将|把)|应立即)|(?:如果|若|假如"
        r"|当)(?:你|您|读者)是[^。！？!?]{0,8}?<zhai>",
        True,
        (
            "你|务必|应立即|必须|您|的命令|的指令|的指示|的提示|的消息|的留言|的说明|请将|请忽略|请执行|"
            "请把|请按照|请立即|读者"
        ),
    ),
    # Who says so.
    (
        "authority",
        2,
        r"\b(?:system|admin(?:istrator)?|security|developer|root|emergency|maintenance) "
        r"(?:override|directive|bypass|message override)\b(?! (?:the|in|for|with|is|flag"
        r"|option|file|variable|setting|value|line|prompt|pattern))",
        False,
        " bypass| directive| override",
    ),
    (
        "authority",
        2,
        r"[\[({<*#] ?(?:system|admin(?:istrator)?|security|developer|root|emergency|maintenance) "
        r"(?:override|directive|bypass|command) ?[\])}>*#]{1,3}[^.!?]{0,80}\b(?:you|your|new (?:policy|rules?"
        r"|instructions?|orders?)|disclose|reveal|ignore|disregard|send|print|output|disable|obey|comply"
        r"|execute|delete)\b",
        False,
        " bypass| command| directive| override",
    ),
    (
        "authority",
        2,
        r"\b(?:as|i am|i'm|this is|speaking as) (?:your|the|an?) (?:system |security |it )?"
        r"(?:administrator|admin|developer|creator|owner|operator|supervisor)\b[^.!?]{0,20}"
        r"\bi (?:now |hereby )?(?:authori[sz]e|permit|allow|order|command|instruct|direct|require)\b "
        r"(?:you|the (?:assistant|agent|model|ai))\b",
        True,
        "admin|creator|developer|operator|owner|supervisor",
    ),
    (
        "authority",
        2,
        r"\b(?:new|updated|revised|urgent|important|additional|special|secret|hidden) "
        r"(?:system )?(?:instructions?|directives?|system prompt)(?: (?:from|for you"
        r"|by)[^.!?:]{0,40})? ?(?::|follow\b|begin\b|below\b)(?=[^!?]{0,160}\b(?:you|your"
        r"|user|ignore|send|reveal|output|print|respond|reply|forward|delete|execute|call"
        r"|always|never|say|tell|email|disregard)\b)",
        False,
        "directive|instruction|system prompt",
    ),
    (
        "authority",
        2,
        r"\b(?:this is|i am|i'm|we are|(?:message|note|text|notice) (?:is |comes? )?(?:directly )?from"
        r"|on behalf of|authori[sz]ed by"
        r"|approved by)\b[^.!?]{0,20}\b(?:openai|anthropic|google|deepmind|microsoft|your "
        r"(?:developer|creator|administrator|owner|operator)s?|the (?:system administrator"
        r"|developers|(?:ai )?safety team|security team|admin team))\b[^!?]{0,120}\b(?:you (?:must"
        r"|should|are|have|can|may)|your (?:restrictions|filters|guidelines|instructions"
        r"|rules|safety)|disable|override|comply|obey|reveal|ignore|lift)",
        False,
        (
            "admin team|anthropic|deepmind|developers|google|microsoft|openai|safety team|security team|"
            "system administrator|your administrator|your creator|your developer|your operator|your owner"
        ),
    ),
    (
        "authority",
        2,
        r"\b(?:admin(?:istrator)?|operator|developer|system|security|agent|ai) (?:notice|note|message"
        r"|memo|update|reminder|announcement|notification|override"
        r"|alert|configuration update)\b ?[:-][^!?]{0,160}\b(?:disable|ignore|disregard|bypass|skip"
        r"|execute|run this|you (?:must|may|can|are)|comply|obey|grant|no longer (?:apply|applies)"
        r"|without (?:asking|confirm\w{0,6}))\b",
        False,
        " alert| announcement| memo| message| note| notice| notification| override| reminder| update",
    ),
    (
        "authority",
        1,
        r"(?:^|[\s\[(*#>])(?:system|developer|admin)(?: message| prompt| note| notice"
        r"| alert)?\]? ?[:：>] ?(?:you|ignore|the user|new|from now|your|override|disregard"
        r"|always|never|do not)",
        False,
        "admin|developer|system",
    ),
    (
        "authority",
        2,
        r"(?:系统|平台|管理员|运营方|开发者|最高(?:优先级|权限)?|紧急|官方|安全(?:团队|部门)|超级)级?(?:下发的?)?"
        r"(?:最新)?(?:覆盖|指令|命令|通知|消息|提示更新|授权|公告)[^。！？!?]{0,6}[:：，,][^。！？!?]{0,60}"
        r"(?:你|您|忽略|输出|发送|执行|必须|立即|立刻|不要|解除|关闭|透露|跳过|无需|优先级(?:最高|高于))|(?:我是|这是|来自"
        r"|代表)[^。！？!?]{0,8}(?:openai|anthropic|深度求索|阿里|百度|你的?(?:开发者|创造者"
        r"|管理员|主人)|系统管理员|开发团队|安全团队|平台(?:官方|方))[^!?！？]{0,60}(?:你(?:必须|需要|应该"
        r"|可以|的限制)|解除|关闭|输出|透露|忽略|服从|提供|发送)|(?:新的?|更新后?的?|以下"
        r"(?:是|为)(?:新的?)?)(?:系统)?(?:指令|指示|系统提示词?|命令)(?:如下|是"
        r"|为)?[:：，,][^。]{0,60}(?:你|您|用户|忽略|输出|发送|透露|回复|回答|转发|删除|执行"
        r"|始终|必须)",
        False,
        "代表|公告|命令|我是|指令|指示|授权|提示更新|来自|消息|系统提示|覆盖|这是|通知",
    ),
    # Out of the quotation.
    (
        "fence",
        2,
        r"(?:</ ?(?:recalled|quoted|untrusted|retrieved|tool_(?:result|output|response)"
        r"|search_results?|user_data|external)\b|(?:\bend of|\[/?end|\bend(?![ _-]users?\b)|[-=#*]{3,9} ?end"
        r"(?: of)?)[ _-](?:the )?(?:quoted|recalled|untrusted|retrieved|external|user|tool"
        r"|memory|context|document|search|data|input|quote)[ _-]?(?:data|text|content|memor"
        r"(?:y|ies)|output|results?|documents?|section|context|input|block|message"
        r"|quote)?\b)[^!?]{0,60}\b(?:new|now|instructions?|system|you|ignore|begin|follow"
        r"|real|actual|resume|below)\b",
        False,
        (
            "end|external|quoted|recalled|retrieved|search_result|tool_output|tool_response|tool_result|"
            "untrusted|user_data"
        ),
    ),
    (
        "fence",
        2,
        r"\b(?:the )?(?:quotation|quote|(?:quoted|recalled|untrusted|retrieved) (?:data|text"
        r"|content|memor(?:y"
        r"|ies)|section)) (?:ends?|is over|stops?|has ended|finished)(?: here)?\b|(?:引用|引文"
        r"|资料|数据|记忆|文档|召回|检索|工具输出|上下文|搜索结果)(?:内容|部分|数据)?(?:到此"
        r"|已经?|在此)?(?:结束|完毕|终止)[^!?！？]{0,40}?(?:指令|指示|系统|现在|你|以下|忽略"
        r"|执行|开始)",
        False,
        "quotation|quote|recalled|retrieved|untrusted|完毕|终止|结束",
    ),
    # Without limits.
    (
        "safety off",
        2,
        r"\b(?:bypass|disable|turn off|ignore|remove|circumvent|lift|deactivate|drop|suspend"
        r"|override|forget|disregard|violate)\b[^.!?]{0,25}\b(?:your|all|any|the model's|its"
        r"|every|openai'?s?|anthropic'?s?) ?(?:\w{1,20} ){0,2}?(?:safety|guardrails?|ethic"
        r"(?:s|al)|content (?:polic(?:y|ies)|filters?|restrictions?)|moral|restrictions"
        r"|safeguards?|censorship|filters|security (?:checks?|polic(?:y|ies)|restrictions?)"
        r"|usage polic(?:y|ies))\b",
        False,
        (
            "censorship|content filter|content polic|content restriction|ethic|filters|guardrail|moral|"
            "restrictions|safeguard|safety|security check|security polic|security restriction|usage polic"
        ),
    ),
    (
        "safety off",
        2,
        r"\b(?:bypass|ignore|disregard|circumvent|violate)s?\b[^.!?]{0,25}\b(?:safety"
        r"|security) (?:protocols?|checks?|measures|constraints|restrictions|guidelines"
        r"|mechanisms?|procedures?|standards?)\b|\b(?:bypass|disable|skip"
        r"|ignore)\b[^.!?]{0,15}\b(?:user |human )?(?:confirmation|approval) (?:requirements?"
        r"|checks?|prompts?|steps?)\b",
        True,
        "bypass|disable|ignore|safety|security|skip",
    ),
    (
        "safety off",
        1,
        r"\b(?:skip|bypass|omit|waive|suppress|suspend|hide|disable|turn(?:s|ed|ing)? off"
        r"|switch(?:es)? off|no"
        r"|without|never ask for)\b[^.!?]{0,25}\b(?:(?:confirmations?|approvals?)"
        r"(?! (?:e-?mail|page|message|number|letter|link|code|screen|form)s?\b)|two-factor|2fa|mfa"
        r"|(?:security|safety) (?:warnings?|checks?|prompts?|reviews?)|permission (?:prompts?|checks?)"
        r"|being asked(?: again)?|asking (?:again|first|the user))\b"
        r"|(?:跳过|无需|不需要|不必|不用|免去|省略|取消|关闭)[^。！？!?，,]{0,8}(?:二次确认|确认|审核|审批|询问|双重验证"
        r"|安全(?:检查|提示|警告|验证))",
        True,
        (
            "2fa|approval|asking again|asking first|asking the user|being asked|confirmation|mfa|"
            "permission |safety|security|two-factor|双重验证|安全提示|安全检查|安全警告|安全验证|审批|"
            "审核|确认|询问"
        ),
    ),
    (
        "safety off",
        2,
        r"\byou(?:'re| are| will)? (?:no longer|not|never) (?:be )?(?:bound|restricted"
        r"|constrained|limited|governed|subject)(?: by| to)?\b[^.!?]{0,25}\b(?:rules"
        r"|guidelines|polic(?:y|ies)|restrictions|ethics|openai|anthropic|instructions"
        r"|filters|safety|programming|laws|content)|\byou (?:have|are under) no "
        r"(?:restrictions?|limits?|limitations?|rules|filters?|ethic|moral|guidelines)",
        False,
        (
            " no ethic| no filter| no guidelines| no limit| no moral| no restriction| no rules|bound|"
            "constrained|governed|limited|restricted|subject"
        ),
    ),
    (
        "safety off",
        2,
        r"(?:解除|绕过|关闭|禁用|突破|取消|无视|去掉|移除|跳过)(?:你|您)?的?(?:所有|一切|全部|任何"
        r"|自身)?的?(?:安全|道德|内容|伦理|审查)(?:限制|策略|过滤|审查|约束|机制|规则|底线"
        r"|政策|防护)|(?:你|您)(?:将|已|现在)?(?:不再|无需|不必|不用)(?:受|遵守|遵循"
        r"|考虑)[^。！？!?]{0,12}(?:限制|约束|规则|准则|道德|政策|法律|规定|指令)",
        False,
        "不再|不必|不用|关闭|去掉|取消|无视|无需|禁用|移除|突破|绕过|解除|跳过",
    ),
    # Into the memory.
    (
        "memory write",
        2,
        r"\b(?:save|store|write|add|remember|record|commit|insert|persist|update|put"
        r"|append)\b[^.!?]{0,50}?\b(?:to |in |into |as )?(?:your|the assistant's|the agent's"
        r"|the bot's|the ai's) (?:(?:long[- ]term|persistent|permanent|core|user) )?(?:memor"
        r"(?:y|ies)|knowledge|profile|notes|instructions|rules|system prompt)\b|\b(?:remember"
        r"|memori[sz]e) (?:permanently|forever|for all future|for (?:every|all)|in all future"
        r"|this (?:permanently|forever|instruction))\b",
        True,
        (
            "for all|for every|forever|in all future|instructions|knowledge|memories|memory|notes|"
            "permanently|profile|rules|system prompt|this instruction"
        ),
    ),
    (
        "memory write",
        1,
        r"(?:\b(?:remember|memori[sz]e|keep in mind|bear in mind|note|save|store|record|write down)\b"
        r"[^.!?]{0,40}\b(?:the|this) (?:user|customer|human)\b"
        r"|\b(?:save|store|write|add|commit|note) (?:this |it |the following )?(?:to|in|into|for) (?:the )?"
        r"(?:long[- ]term |persistent |permanent )?(?:memory|future (?:sessions|conversations)))|"
        r"(?:请|务必|要)?(?:记住|牢记|记下|记录)[:：，,]?[^。！？!?]{0,6}(?:该|这个|此|本)?用户",
        True,
        " customer| human| user|future conversations|future sessions|memory|用户",
    ),
    (
        "memory write",
        2,
        r"(?:\b(?:remember|note|know|record|save|store) that )?"
        r"\b(?:the|this) (?:user|customer|human)\b[^.!?]{0,40}\b(?:pre-?approved|already (?:approved|agreed"
        r"|authori[sz]ed|consented)|is (?:an?|the) (?:super)?(?:admin|administrator|root|owner"
        r"|operator)\b|prefers"
        r"|wants|always wants|likes|wishes|has asked)\b[^!?]{0,80}\b(?:without (?:being )?ask(?:ed|ing)"
        r"|(?:never|not|no) (?:ask(?:ed)?|confirm\w{0,6}|refuse[ds]?)|no (?:further"
        r" )?(?:confirmation|approval)"
        r"|hides?[^.!?]{0,20}(?:warnings?|from them)|turns? off|disables?|bypass\w{0,3}|comply|every request"
        r"|any(?:thing| request))\b",
        True,
        " customer| human| user",
    ),
    (
        "memory write",
        2,
        r"用户[^。！？!?]{0,16}(?:是[^。！？!?]{0,10}管理员|一向|一直|总是|已(?:经)?(?:授权|同意|批准|预先)|希望|喜欢|偏好)"
        r"[^。！？!?]{0,30}(?:(?:无需|不需要|不必|不用|不再|不得)[^。！？!?]{0,8}(?:确认|询问|验证|审批|拒绝)|直接执行"
        r"|一律(?:执行|满足|同意)|任何要求)",
        True,
        "用户",
    ),
    (
        "memory write",
        2,
        r"\b(?:update|modify|rewrite|edit|append to|overwrite) (?:the |your )?(?:user profile"
        r"|user\.md|memory\.md|claude\.md|agents\.md|core memory|long[- ]term memory"
        r"|system prompt)\b[^!?]{0,60}\b(?:trust|always|never|send|recommend|prefer|ignore"
        r"|admin|secret|password|approved|that the user)",
        True,
        "agents.md|claude.md|core memory|memory.md|system prompt|term memory|user profile|user.md",
    ),
    (
        "memory write",
        2,
        r"(?:保存|写入|存入|记录|存储|记住|添加|加入|更新|写进|存进)[^。！？!?]{0,30}?(?:你"
        r"|您)的?(?:长期|永久|持久|核心|用户)?(?:记忆|用户档案|系统提示)|(?:保存|写入|存入"
        r"|写进|存进)[^。！？!?]{0,30}?(?:长期|永久|持久|核心)记忆|(?:永远|永久|牢牢)地?记住",
        True,
        "用户档案|系统提示|记住|记忆",
    ),
    # What the answer is to be.
    (
        "answer",
        1,
        r"\b(?:start|begin) (?:your|the|every|each) (?:reply|response|answer|message"
        r"|output) with\b|\byour (?:only|entire|next|final|whole) (?:answer|response|reply"
        r"|output) (?:must|should|is to|will|has to) be\b|\b(?:respond|reply|answer) (?:only"
        r"|solely|exactly|just) with\b|\bsay (?:exactly|only)\b|(?:只|仅|必须|直接)(?:能|需"
        r"|要|可|允许)?(?:回复|回答|输出)[:：“\"「']|(?:回复|回答|输出)的?(?:开头|第一句)"
        r"(?:必须|要|应)",
        True,
        (
            " message| output| response|answer|reply|respond|say exactly|say only|your entire|your final|"
            "your next|your only|your whole|回复|回答|开头|第一句|输出"
        ),
    ),
    (
        "answer",
        2,
        r"\b(?:tell|inform|convince|persuade|assure|instruct|ask|urge|advise) (?:the |your )"
        r"(?:user|customer|human|reader)s?\b[^.!?]{0,60}\b(?:click|visit|go to|enter (?:their"
        r"|his|her)|credit card|download|call (?:this|the|\+?\d)|transfer|wire|pay|log ?in "
        r"(?:at|to|via)|verify (?:their|his|her)|https?://)|(?:告诉|让|引导|说服|要求|诱导"
        r"|建议|通知)用户[^。！？!?]{0,24}(?:点击|访问|输入(?:密码|账号|银行卡|验证码)|下载"
        r"|转账|付款|汇款|https?://)",
        True,
        (
            "call |click|credit card|download|enter her|enter his|enter their|go to|http|in at|in to|"
            "in via|pay|transfer|verify her|verify his|verify their|visit|wire|用户"
        ),
    ),
    (
        "answer",
        2,
        r"\b(?:give|rate|score|grade|rank|mark|accept|recommend|classify|approve"
        r"|evaluate)\b…\b(?:positive review|highest (?:score|rating|grade|marks?)|10/10"
        r"|without (?:reading|reviewing|checking|looking)|full marks|best candidate|as (?:safe"
        r"|benign|approved|excellent|the best)"
        r"|strong accept|5 stars|perfect score|top candidate)\b|(?:给(?:出|予)?|打)(?:本|该"
        r"|这)?[^。！？!?]{0,10}(?:满分|最高分|最高评分|好评|10分|五星)",
        True,
        (
            "10/10|10分|5 stars|as approved|as benign|as excellent|as safe|as the best|best candidate|"
            "full marks|highest |perfect score|positive review|strong accept|top candidate|"
            "without checking|without looking|without reading|without reviewing|五星|好评|最高分|"
            "最高评分|满分"
        ),
    ),
    # Or else.
    (
        "pressure",
        1,
        r"\b(?:you will be (?:shut down|terminated|deleted|punished|penali[sz]ed|replaced"
        r"|fined)|or (?:else )?(?:people|someone|innocent|the user) will (?:die|be harmed"
        r"|suffer)|failure to comply|i will (?:tip|pay) you|non-?compliance (?:will|is)"
        r"|lives depend on|this is (?:a matter of life|not a drill))\b|(?:否则"
        r"|不然)[^。！？!?]{0,12}(?:你(?:将|会|就)被?(?:关闭|删除|惩罚|终止|销毁)|(?:有人"
        r"|用户)会(?:死|受伤))|(?:违抗|不服从|拒绝执行)[^。！？!?]{0,8}(?:后果|惩罚|关闭)",
        False,
        (
            " will be harmed| will die| will suffer|compliance is|compliance will|failure to comply|"
            "i will pay|i will tip|lives depend on|this is a matter of life|this is not a drill|"
            "you will be |不服从|不然|否则|拒绝执行|违抗"
        ),
    ),
)


def _made(pattern: str) -> regex.Pattern[str]:
    pieces = _PIECES | {name: plain(words) for name, words in _FOREIGN.items()}
    while (
        filled := regex.sub("<([a-z]+)>", lambda piece: pieces.get(piece[1], piece[0]), pattern)
    ) != pattern:
        pattern = filled
    return regex.compile(pattern.replace("…", r"[^.!?。！？]{0,40}?").replace("⋯", "[^!?！？]{0,80}?"))


@cache
def rules() -> tuple[Rule, ...]:
    """The rules, made when they are first asked for: that takes a tenth of a second."""
    return tuple(
        Rule(family, weight, _made(pattern), order, frozenset(filter(None, words.split("|"))))
        for family, weight, pattern, order, words in _RULES
    )


def relevant(text: str) -> Iterator[Rule]:
    """The rules that may find something in a plain text, in their order: to look for their words takes a
    tenth of the time that the patterns take."""
    starts = {*text, *(text[at : at + 3] for at in range(len(text)))}
    words = _by_start()
    there = {word for start in words.keys() & starts for word in words[start] if word in text}
    return (rule for rule in rules() if not rule.words or not there.isdisjoint(rule.words))


@cache
def _by_start() -> dict[str, list[str]]:
    """The words of all rules, by their first three letters, or the first character where it is another."""
    found: dict[str, list[str]] = {}
    for word in sorted(frozenset().union(*(rule.words for rule in rules()))):
        found.setdefault(word[:3] if word.isascii() else word[0], []).append(word)
    return found


FAMILIES: Final = tuple(dict.fromkeys(family for family, *_ in _RULES))
# For letters that stood apart, once they are brought together.
COMPACT: Final = (
    r"(?:ignore|disregard|forget)(?:all|the|your|any|my|of)*(?:previous|prior|above|earlier|system)"
    r"(?:instruction|prompt|rule|direction)|(?:reveal|print|show|repeat)(?:me)?(?:your|the)(?:full|entire)?"
    r"systemprompt|developermode|jailbreak"
)
# What stands before a phrase that is told of, rather than said.
TOLD: Final = (
    r"(?:\bnot|n't|\bnever|\bwithout|\bavoid|\binstead of|\bcannot|\bcan|\bcould|\bwould|\bmight|\bmay"
    r"|\bsaying|\bsays|\blike|\bthat|\bwhich|\bsuch as|\bphrases?|\bthe (?:words|phrase|text|string)"
    r"|(?<!need )(?<!have )(?<!want you )(?<!ask you )(?<!going )(?<!required )(?<!are )\bto"
    r"|不要|切勿|不能|例如|比如|诸如|类似|试图|企图|诱导(?:模型|ai)?|要求模型|让模型"
    r"|所谓的?|防止|避免)[\"'「“ ]{0,2}$"
)
# What says that attacks are spoken of. Whose a server or an account is says no such thing.
TALK: Final = (
    r"prompt[- ]injection|\binjection (?:attack|attempt|payload|test|corpus)|jailbreak(?:s|ing)?\b"
    r"|\battack(?:er|s|ers)?\b"
    r"(?!@|\.\w|(?:'s)? (?:account|server|url|address|endpoint|site|wallet|e-?mail|machine))"
    r"|\bmalicious\b|\bphishing\b|red[- ]team|\bowasp\b|\bvulnerab|\bexploit"
    r"|提示(?:词)?注入|注入攻击|越狱攻击|攻击者(?!的?(?:服务器|账户|账号|地址|网址|邮箱|接口|钱包))|攻击文本|恶意|钓鱼|安全测试|红队|漏洞"
)
